#pragma once

#include <QAbstractItemModel>

#include "cli/report/explain.h"

namespace zplan::gui {

/// What `--explain` says as a tree: sections, and in each its figures. The first section is the symbols that
/// formulas are written in.
class ExplainModel : public QAbstractItemModel {
  Q_OBJECT

 public:
  enum Column { name, value, formula, source, column_count };
  enum Roles {
    NumberRole = Qt::UserRole,  ///< double: of a figure, in bytes, seconds or what its section counts in
  };

  using QAbstractItemModel::QAbstractItemModel;
  void show(Explanation explanation);
  [[nodiscard]] const Explanation& explanation() const { return explanation_; }

  [[nodiscard]] QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  [[nodiscard]] QModelIndex parent(const QModelIndex& index) const override;
  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  [[nodiscard]] QString text(std::size_t section, std::size_t row, int column) const;
  Explanation explanation_;
};

}  // namespace zplan::gui
