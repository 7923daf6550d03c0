#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "gui/session/planned.h"

namespace zplan::gui {

/// Figures that add up, a row a subject: memory by part, time by what it goes into, traffic by phase. Stacked
/// bars are painted over it, and it is the table beside them.
class StackModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Roles {
    ValueRole = Qt::UserRole,  ///< double: bytes or seconds, of a part
    TotalRole,                 ///< double: of the row, what the parts add up to
    MarksRole,                 ///< QVector<Mark> of the row: lines across the bar
    DraftRole,                 ///< bool: a first estimate
    WarningRole,               ///< bool: does not fit
    ValueTextRole              ///< QString: the figure with its unit; for a row (column 0), of the total
  };
  /// A limit that the bar is held against.
  struct Mark {
    QString name, text;  ///< "available", "39.1 GiB"
    double value{};
    bool strong{};  ///< the one that decides
    bool operator==(const Mark&) const = default;
  };
  enum class Kind {
    memory,   ///< device bytes by part and allocator slack, against usable memory and what headroom leaves
    time,     ///< seconds of a step: compute, launches, exposed communication, offload, optimizer
    traffic,  ///< bytes that a GPU sends by phase of the step
  };

  explicit StackModel(Kind kind, QObject* parent = nullptr);

  void show(const Subjects& subjects);
  [[nodiscard]] Kind kind() const { return kind_; }
  /// Parts that stack, one a column; a last column holds the total.
  [[nodiscard]] int parts() const;

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  /// Across: names of parts (tooltip: what they are and where the figure comes from); down: titles.
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  Kind kind_;
  Subjects subjects_;
};

}  // namespace zplan::gui

Q_DECLARE_METATYPE(zplan::gui::StackModel::Mark)
