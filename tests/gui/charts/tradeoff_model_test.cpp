#include "gui/models/tradeoff_model.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>

#include "planned_scenarios.h"

namespace zplan::gui {
namespace {

class TradeoffModelTest : public ::testing::Test {
 protected:
  [[nodiscard]] QVariant of(int row, int role) const { return model_.index(row, 0).data(role); }
  [[nodiscard]] double needs(int row) const { return of(row, TradeoffModel::BytesRole).toDouble(); }
  [[nodiscard]] double speed(int row) const { return of(row, TradeoffModel::SpeedRole).toDouble(); }
  [[nodiscard]] bool is_beaten(int row) const {
    for (int other = 0; other < model_.rowCount(); ++other)
      if (of(other, TradeoffModel::ScenarioRole) == of(row, TradeoffModel::ScenarioRole) &&
          of(other, TradeoffModel::FitsRole).toBool() && needs(other) <= needs(row) &&
          speed(other) >= speed(row) && (needs(other) < needs(row) || speed(other) > speed(row)))
        return true;
    return false;
  }

  TradeoffModel model_;
  QAbstractItemModelTester tester_{&model_, QAbstractItemModelTester::FailureReportingMode::Fatal};
};

TEST_F(TradeoffModelTest, HasEveryPlanOfEveryScenario) {
  const std::vector<PlannedPtr> scenarios{test::readme(), test::two_nodes()};
  model_.show(scenarios);
  int row = 0;
  for (std::size_t i = 0; i < scenarios.size(); ++i)
    for (const Plan& plan : scenarios[i]->answer.plans) {
      EXPECT_EQ(of(row, TradeoffModel::ScenarioRole).toUInt(), i);
      EXPECT_EQ(of(row, TradeoffModel::IdRole).toString().toStdString(), plan.id());
      EXPECT_EQ(needs(row), static_cast<double>(plan.memory().required.value));
      EXPECT_EQ(speed(row), plan.time.tokens_per_second);
      EXPECT_EQ(of(row, TradeoffModel::FitsRole).toBool(), plan.fits);
      ++row;
    }
  EXPECT_EQ(row, model_.rowCount());
}

TEST_F(TradeoffModelTest, TheFrontIsWhatFitsAndIsNotBeaten) {
  model_.show({test::two_nodes(), test::readme(), test::too_small()});
  int fronts = 0, misses = 0;
  for (int row = 0; row < model_.rowCount(); ++row) {
    const bool front = of(row, TradeoffModel::FrontRole).toBool();
    EXPECT_EQ(front, of(row, TradeoffModel::FitsRole).toBool() && !is_beaten(row));
    fronts += front, misses += !front;
  }
  EXPECT_GE(fronts, 3);
  EXPECT_GE(misses, 3);
}

TEST_F(TradeoffModelTest, TheFastestThatFitsIsOnTheFront) {
  model_.show({test::two_nodes()});
  EXPECT_TRUE(of(0, TradeoffModel::FrontRole).toBool());
  EXPECT_TRUE(of(0, TradeoffModel::ShownRole).toBool());
  EXPECT_TRUE(of(0, Qt::AccessibleTextRole).toString().endsWith("on the Pareto front"));
}

TEST_F(TradeoffModelTest, TooltipsGiveTheReasons) {
  model_.show({test::readme()});
  const Plan& plan = test::readme()->answer.plans.front();
  ASSERT_FALSE(plan.why.empty());
  EXPECT_TRUE(
      of(0, Qt::ToolTipRole).toString().simplified().contains(QString::fromStdString(plan.why.front())));
}

TEST_F(TradeoffModelTest, NothingIsNoRow) {
  model_.show({});
  EXPECT_EQ(model_.rowCount(), 0);
  for (int column = 0; column < model_.columnCount(); ++column)
    EXPECT_FALSE(model_.headerData(column, Qt::Horizontal).toString().isEmpty());
}

}  // namespace
}  // namespace zplan::gui
