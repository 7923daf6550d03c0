#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "gui/session/planned.h"

namespace zplan::gui {

/// The table that `zplan compare` prints: one row per figure, one column per subject, and after every subject
/// but the baseline a column with its differences. "*" marks the best figure of a row; "–" stands for a part
/// that a plan does not have.
class ComparisonModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Roles {
    SectionRole = Qt::UserRole,  ///< int: rows with equal numbers belong together
    SubjectRole,                 ///< int: index of the column's subject
    DifferenceRole,              ///< bool: the column holds differences
    BestRole                     ///< bool: the best of its row
  };

  using QAbstractTableModel::QAbstractTableModel;

  /// `baseline`: index of the subject that differences refer to; -1: the first.
  void show(const Subjects& subjects, int baseline, bool differences_only);
  [[nodiscard]] const Subjects& subjects() const { return subjects_; }
  [[nodiscard]] int baseline() const { return baseline_; }
  /// Returns the number of rows left out because all subjects have the same value.
  [[nodiscard]] int left_out() const { return left_out_; }
  /// Returns what the signs of the table mean.
  [[nodiscard]] static QString legend();

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  struct Cell {
    QString text, difference;
    bool best{};
  };
  struct Line {
    QString name;  ///< in English, as reports have it
    QString unit;
    int section{};
    std::vector<Cell> cells{};  ///< one per subject
    bool alike{};
  };
  struct Column {
    int subject;
    bool difference;
  };
  [[nodiscard]] static std::vector<Line> all_lines(const Subjects& subjects, int baseline);
  [[nodiscard]] QString tip(const Line& line, const Subject& subject) const;

  Subjects subjects_;
  int baseline_{-1}, left_out_{};
  std::vector<Line> lines_;
  std::vector<Column> columns_;
};

}  // namespace zplan::gui
