#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "gui/models/figures.h"

namespace zplan::gui {

/// Memory over the steady step: one row per stretch, all rows of one subject together. A stretch is a layer's
/// forward or backward, the loss, or the optimizer step; its figure is the highest live memory within it.
/// More than three micro-batches are shown as three: the first, one for all in between, and the last.
class TimelineModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { subject, phase, moment, layer, live, device, column_count };
  enum Roles {
    SubjectRole = Qt::UserRole,  ///< int: index of the subject
    PositionRole,                ///< double from 0 to 1: where it begins; shows order, not time
    EndRole,                     ///< double: where it ends
    LiveRole,                    ///< double: live bytes in PyTorch's allocator
    BytesRole,                   ///< double: on the device, CUDA context and NCCL's buffers included
    PhaseRole,                   ///< int: Phase, as reports name it
    PhaseTextRole,               ///< QString: its name
    PeakRole,                    ///< bool: the highest of its subject
    TitleRole,                   ///< QString: the subject's title
    ValueTextRole,               ///< QString: BytesRole with its unit
    MarksRole,                   ///< QVector<Mark>: limits of the device
    DraftRole,                   ///< bool: a first estimate
    WarningRole,                 ///< bool: the subject does not fit
    ScaleRole                    ///< Scale, of any horizontal header: unit of the axis
  };

  using QAbstractTableModel::QAbstractTableModel;
  void show(const Subjects& subjects);

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  struct Stretch {
    std::size_t subject{}, moment{};
    double begin{}, end{};
    Bytes outside;  ///< device memory outside PyTorch's allocator
    bool peak{};
  };
  void add(std::size_t subject);
  [[nodiscard]] const Moment& moment_of(const Stretch& stretch) const;
  [[nodiscard]] Bytes bytes(const Stretch& stretch) const {
    return moment_of(stretch).live + stretch.outside;
  }
  [[nodiscard]] QString text(const Stretch& stretch, Column column) const;
  [[nodiscard]] QString spoken(const Stretch& stretch) const;
  [[nodiscard]] QString size(const Stretch& stretch, Bytes bytes) const;

  Subjects subjects_;
  std::vector<Stretch> stretches_;
};

}  // namespace zplan::gui
