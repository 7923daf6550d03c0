#pragma once

#include "gui/session/planned.h"
#include "gui/tables/text_table_model.h"

namespace zplan::gui {

/// The table of strategies that `zplan` prints, every column of it: a row a plan, best first.
class StrategiesModel : public TextTableModel {
  Q_OBJECT

 public:
  enum Roles {
    IdRole = SortRole + 1,  ///< QString: of the strategy
    ShownRole               ///< bool: stands for the scenario
  };

  using TextTableModel::TextTableModel;
  /// Null: nothing is shown.
  void show(const PlannedPtr& planned);
  [[nodiscard]] const PlannedPtr& planned() const { return planned_; }

  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  PlannedPtr planned_;
};

}  // namespace zplan::gui
