#include "gui/models/timeline_model.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <nlohmann/json.hpp>

#include "cli/report/report.h"
#include "planned_scenarios.h"

namespace zplan::gui {
namespace {

using test::all_plans;

class TimelineModelTest : public ::testing::Test {
 protected:
  [[nodiscard]] QVariant of(int row, int role) const { return model_.index(row, 0).data(role); }

  TimelineModel model_;
  QAbstractItemModelTester tester_{&model_, QAbstractItemModelTester::FailureReportingMode::Fatal};
};

TEST_F(TimelineModelTest, IsTheReportsTimeline) {
  const PlannedPtr planned = test::two_nodes();
  model_.show(all_plans(planned));
  const Json json = report_json(report_of(*planned));
  int row = 0;
  for (const Json& plan : json["plans"])
    for (const Json& moment : plan["memory"]["timeline"]) {
      ASSERT_LT(row, model_.rowCount());
      EXPECT_EQ(of(row, TimelineModel::LiveRole).toDouble(), moment["bytes"].get<double>());
      EXPECT_EQ(model_.index(row, TimelineModel::moment).data().toString().toStdString(),
                moment["at"].get<std::string>());
      const auto phase = static_cast<Phase>(of(row, TimelineModel::PhaseRole).toInt());
      EXPECT_EQ(std::string(to_name(phase)), moment["phase"].get<std::string>());
      ++row;
    }
  EXPECT_EQ(row, model_.rowCount());
}

TEST_F(TimelineModelTest, ThePeakIsThePlansPeak) {
  for (const Depth depth : {Depth::full, Depth::draft}) {
    const PlannedPtr planned = test::readme(depth);
    model_.show(all_plans(planned));
    std::vector<double> highest(planned->answer.plans.size()), at_peak(highest);
    for (int row = 0; row < model_.rowCount(); ++row) {
      const auto subject = of(row, TimelineModel::SubjectRole).toUInt();
      const double bytes = of(row, TimelineModel::BytesRole).toDouble();
      highest[subject] = std::max(highest[subject], bytes);
      if (of(row, TimelineModel::PeakRole).toBool()) at_peak[subject] += bytes;
    }
    for (std::size_t i = 0; i < highest.size(); ++i) {
      EXPECT_EQ(highest[i], static_cast<double>(planned->answer.plans[i].memory().peak.bytes().value));
      EXPECT_EQ(highest[i], at_peak[i]) << "one peak a curve";
    }
  }
}

TEST_F(TimelineModelTest, StretchesFollowEachOtherFromBeginToEnd) {
  model_.show(all_plans(test::two_nodes()));
  double end = 0;
  int subject = -1;
  for (int row = 0; row < model_.rowCount(); ++row) {
    const double begin = of(row, TimelineModel::PositionRole).toDouble();
    if (of(row, TimelineModel::SubjectRole).toInt() != subject) {
      if (subject >= 0) {
        EXPECT_NEAR(end, 1, 1e-9);
      }
      subject = of(row, TimelineModel::SubjectRole).toInt(), end = 0;
    }
    EXPECT_NEAR(begin, end, 1e-9);
    end = of(row, TimelineModel::EndRole).toDouble();
    EXPECT_GT(end, begin);
  }
  EXPECT_NEAR(end, 1, 1e-9);
}

TEST_F(TimelineModelTest, PhasesOfPlansThatAreAlikeStandUnderEachOther) {
  model_.show(all_plans(test::readme()));
  std::map<int, std::vector<double>> begins;
  for (int row = 1; row < model_.rowCount(); ++row)
    if (of(row, TimelineModel::PhaseRole) != of(row - 1, TimelineModel::PhaseRole))
      begins[of(row, TimelineModel::SubjectRole).toInt()].push_back(
          of(row, TimelineModel::PositionRole).toDouble());
  ASSERT_GT(begins[0].size(), 2U);
  const std::vector<double>& last = begins.rbegin()->second;
  for (std::size_t i = 1; i <= 3; ++i)
    EXPECT_NEAR(begins[0][begins[0].size() - i], last[last.size() - i], 1e-9);
}

TEST_F(TimelineModelTest, EveryCellAndHeaderSaysWhatItIs) {
  model_.show({{"8B", test::readme(), 0}});
  for (int column = 0; column < model_.columnCount(); ++column)
    EXPECT_FALSE(model_.headerData(column, Qt::Horizontal).toString().isEmpty());
  EXPECT_TRUE(model_.headerData(TimelineModel::live, Qt::Horizontal, Qt::ToolTipRole)
                  .toString()
                  .contains("docs/memory.md"));
  int peaks = 0;
  for (int row = 0; row < model_.rowCount(); ++row) {
    const QString spoken = of(row, Qt::AccessibleTextRole).toString();
    EXPECT_TRUE(spoken.startsWith("8B, ")) << spoken.toStdString();
    peaks += spoken.contains("the peak");
  }
  EXPECT_EQ(peaks, 1);
}

}  // namespace
}  // namespace zplan::gui
