#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "cli/document/table.h"
#include "gui/session/planned.h"

namespace zplan::gui {

/// A table of the command line as an item model.
class TextTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Roles {
    SortRole = Qt::UserRole,  ///< sort key of the row, the same in all its columns
  };

  using QAbstractTableModel::QAbstractTableModel;
  /// Shows a table. `keys` are the rows' sort keys, `hints` their tooltips; both may be empty.
  void show(Table table, std::vector<QVariant> keys = {}, QStringList hints = {});
  [[nodiscard]] const Table& table() const { return table_; }

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 protected:
  /// Replaces the table without signals, which the caller emits.
  void set_table(Table table) { table_ = std::move(table); }

 private:
  Table table_;
  std::vector<QVariant> keys_;
  QStringList hints_;
};

/// The table of strategies that `zplan` prints, with all columns: one row per plan, best first.
class StrategiesModel : public TextTableModel {
  Q_OBJECT

 public:
  enum Roles {
    IdRole = SortRole + 1,  ///< QString: the strategy's id
    ShownRole               ///< bool: the plan that the scenario shows
  };

  using TextTableModel::TextTableModel;
  /// Shows the plans of an answer; null clears the table.
  void show(const PlannedPtr& planned);
  [[nodiscard]] const PlannedPtr& planned() const { return planned_; }

  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  PlannedPtr planned_;
};

}  // namespace zplan::gui
