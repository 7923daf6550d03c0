#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "cli/document/table.h"

namespace zplan::gui {

/// A table of the command line as an item model.
class TextTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Roles {
    SortRole = Qt::UserRole,  ///< what the row is sorted by, the same in all its columns
  };

  using QAbstractTableModel::QAbstractTableModel;
  /// `keys`: of the rows, for SortRole; `hints`: their tooltips. May be empty.
  void show(Table table, std::vector<QVariant> keys = {}, QStringList hints = {});
  [[nodiscard]] const Table& table() const { return table_; }

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 protected:
  /// Without a word to views: between signals of the caller's.
  void set_table(Table table) { table_ = std::move(table); }

 private:
  Table table_;
  std::vector<QVariant> keys_;
  QStringList hints_;
};

}  // namespace zplan::gui
