#pragma once

#include <QAbstractTableModel>
#include <optional>
#include <vector>

#include "gui/models/figures.h"

namespace zplan::gui {

/// Figures that add up, a row a subject: memory by part, time by what it goes into, traffic by phase. Stacked
/// bars are painted over it, and it is the table beside them.
class StackModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Roles {
    ValueRole = Qt::UserRole,  ///< double: bytes or seconds, of a part; of the last column, of the row
    TotalRole,                 ///< double: of the row, what the parts add up to
    MarksRole,                 ///< QVector<Mark> of the row: lines across the bar
    DraftRole,                 ///< bool: a first estimate
    WarningRole,               ///< bool: does not fit
    ValueTextRole,             ///< QString: the figure with its unit
    TotalTextRole,             ///< QString: the row's total with its unit
    NoteRole,     ///< QString: what follows the total, " short", ", does not fit"; empty where it fits
    VerdictRole,  ///< QString: "short by 7.14 GiB"; empty where it fits
    ScaleRole     ///< Scale, of any horizontal header: how an axis counts
  };
  using Mark = gui::Mark;
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
  struct Row {
    std::vector<double> values;                        ///< of the parts, and their total
    mutable std::optional<Explanation> explanation{};  ///< made when a tooltip first asks
  };
  [[nodiscard]] Row row_of(const Subject& subject) const;
  [[nodiscard]] QString name(int column) const;
  [[nodiscard]] QString note(const Plan& plan) const;
  [[nodiscard]] QString text(int row, int column) const;
  [[nodiscard]] const Explanation& explanation(int row) const;
  /// Figures of --explain that a column's figure is, or is made of.
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
