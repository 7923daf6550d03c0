#pragma once

#include <QAbstractTableModel>

#include "planner/search/search.h"

namespace zplan::gui {

/// The plans of one answer as a table: a row a strategy, best first, in the words and units of the command
/// line.
class PlanTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { strategy, needs, free, step, tokens_per_second, verdict, column_count };

  using QAbstractTableModel::QAbstractTableModel;

  void show(Question question, Answer answer);

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  [[nodiscard]] QString text(const Plan& plan, Column column) const;

  std::optional<Question> question_;
  Answer answer_;
};

}  // namespace zplan::gui
