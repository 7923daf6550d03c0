#pragma once

#include <QAbstractTableModel>

#include "cli/table.h"
#include "gui/session/planned.h"

namespace zplan::gui {

/// The table of strategies that `zplan` prints, every column of it: a row a plan, best first.
class StrategiesModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Roles {
    IdRole = Qt::UserRole,  ///< QString: of the strategy
    ShownRole               ///< bool: stands for the scenario
  };

  using QAbstractTableModel::QAbstractTableModel;
  /// Null: nothing is shown.
  void show(const PlannedPtr& planned);
  [[nodiscard]] const PlannedPtr& planned() const { return planned_; }

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  PlannedPtr planned_;
  Table table_;
};

}  // namespace zplan::gui
