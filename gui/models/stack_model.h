#pragma once

#include <QAbstractTableModel>
#include <optional>
#include <vector>

#include "gui/models/figures.h"

namespace zplan::gui {

/// Figures that add up, one row per subject: memory by part, time by activity, or traffic by phase. Shown as
/// stacked bars and as a table.
class StackModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Roles {
    ValueRole = Qt::UserRole,  ///< double: bytes or seconds of a part; in the last column, of the row
    TotalRole,                 ///< double: sum of the row's parts
    MarksRole,                 ///< QVector<Mark>: limits of the row
    DraftRole,                 ///< bool: a first estimate
    WarningRole,               ///< bool: does not fit
    ValueTextRole,             ///< QString: the figure with its unit
    TotalTextRole,             ///< QString: the row's total with its unit
    NoteRole,     ///< QString: text after the total, ", short" or ", does not fit"; empty if the plan fits
    VerdictRole,  ///< QString: "short by 7.14 GiB"; empty if the plan fits
    ScaleRole     ///< Scale, of any horizontal header: unit of the axis
  };
  using Mark = gui::Mark;
  enum class Kind {
    memory,   ///< device bytes by part and allocator slack, with the device's limits
    time,     ///< seconds of a step: compute, launches, exposed communication, offload, optimizer
    traffic,  ///< bytes that a GPU sends, by phase of the step
  };

  explicit StackModel(Kind kind, QObject* parent = nullptr);

  void show(const Subjects& subjects);
  [[nodiscard]] Kind kind() const { return kind_; }
  /// Returns the number of parts, one per column; the last column holds the total.
  [[nodiscard]] int parts() const;

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  /// Horizontal: names of the parts, with meaning and source as tooltip. Vertical: titles of the subjects.
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  struct Row {
    std::vector<double> values;                        ///< the parts, then their total
    mutable std::optional<Explanation> explanation{};  ///< made for the first tooltip
  };
  [[nodiscard]] Row row_of(const Subject& subject) const;
  [[nodiscard]] QString name(int column) const;
  [[nodiscard]] QString note(const Plan& plan) const;
  [[nodiscard]] QString text(int row, int column) const;
  [[nodiscard]] const Explanation& explanation(int row) const;
  /// Returns the figures of --explain that a column's figure consists of.
  [[nodiscard]] std::vector<Figure> figures(int row, int column) const;
  [[nodiscard]] QString tooltip(int row, int column) const;
  [[nodiscard]] QString meaning(int column) const;
  [[nodiscard]] QString spoken(int row, int column) const;
  [[nodiscard]] Scale scale() const;

  Kind kind_;
  Subjects subjects_;
  std::vector<Row> rows_;
};

}  // namespace zplan::gui
