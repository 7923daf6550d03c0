#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "gui/models/figures.h"

namespace zplan::gui {

/// Every strategy of the scenarios with the memory it needs, its speed, and whether it is on the Pareto front
/// of both.
class TradeoffModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { scenario, strategy, needs, speed, verdict, front, column_count };
  enum Roles {
    ScenarioRole = Qt::UserRole,  ///< int: index of the scenario
    BytesRole,                    ///< double: bytes required on a device
    SpeedRole,                    ///< double: tokens per second
    FitsRole,                     ///< bool
    FrontRole,  ///< bool: it fits, and no other of its scenario that fits needs less memory and is as fast
    IdRole,     ///< QString: the strategy's id
    TitleRole,  ///< QString: the scenario's name
    MarksRole,  ///< QVector<Mark>: limits of the scenario's device
    DraftRole,  ///< bool: a first estimate
    ShownRole,  ///< bool: the plan that its scenario shows
    ScaleRole   ///< Scale, of the headers of `needs` and `speed`
  };

  using QAbstractTableModel::QAbstractTableModel;
  void show(const std::vector<PlannedPtr>& scenarios);

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  struct Point {
    std::size_t scenario, plan;
    bool front;
  };
  [[nodiscard]] const Plan& plan_of(const Point& point) const;
  [[nodiscard]] QString text(const Point& point, Column column) const;
  [[nodiscard]] QString spoken(const Point& point) const;
  [[nodiscard]] QString tooltip(const Point& point) const;

  std::vector<PlannedPtr> scenarios_;
  std::vector<Point> points_;
};

}  // namespace zplan::gui
