#pragma once

#include <QAbstractTableModel>

#include "gui/session/planned.h"

namespace zplan::gui {

/// Live memory over a step: a row a moment of a subject, subjects one after the other.
class TimelineModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { subject, phase, moment, layer, live, column_count };
  enum Roles {
    SubjectRole = Qt::UserRole,  ///< int: which curve
    PositionRole,                ///< double from 0 to 1: how far along the step
    BytesRole,                   ///< double: live bytes in PyTorch's allocator
    PhaseRole                    ///< int: Phase, as reports name it
  };

  using QAbstractTableModel::QAbstractTableModel;
  void show(const Subjects& subjects);

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  Subjects subjects_;
  std::vector<int> first_;  ///< row at which each subject begins
};

}  // namespace zplan::gui
