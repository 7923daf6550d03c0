#include "gui/models/stack_model.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <nlohmann/json.hpp>

#include "cli/document/text.h"
#include "cli/report/report.h"
#include "planned_scenarios.h"
#include "tests/gui/support.h"

namespace zplan::gui {
namespace {

using test::all_plans;
using Kind = StackModel::Kind;

class StackModelTest : public ::testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] double value(int row, int column) const {
    return model_.index(row, column).data(StackModel::ValueRole).toDouble();
  }
  [[nodiscard]] double sum(int row) const {
    double all = 0;
    for (int column = 0; column < model_.parts(); ++column) all += value(row, column);
    return all;
  }

  StackModel model_{GetParam()};
  QAbstractItemModelTester tester_{&model_, QAbstractItemModelTester::FailureReportingMode::Fatal};
};

INSTANTIATE_TEST_SUITE_P(Kinds, StackModelTest, ::testing::Values(Kind::memory, Kind::time, Kind::traffic));

TEST_P(StackModelTest, PartsAddUpToTheTotal) {
  for (const PlannedPtr& planned : {test::readme(), test::two_nodes(), test::too_small()}) {
    model_.show(all_plans(planned));
    ASSERT_EQ(model_.rowCount(), static_cast<int>(planned->answer.plans.size()));
    for (int row = 0; row < model_.rowCount(); ++row) {
      const double total = value(row, model_.parts());
      EXPECT_EQ(model_.index(row, 0).data(StackModel::TotalRole).toDouble(), total);
      EXPECT_NEAR(sum(row), total, 1e-9 * total) << planned->answer.plans[static_cast<std::size_t>(row)].id();
      for (int column = 0; column < model_.parts(); ++column) EXPECT_GE(value(row, column), 0);
    }
  }
}

TEST_P(StackModelTest, AFirstEstimateAddsUpToo) {
  const PlannedPtr draft = test::readme(Depth::draft);
  model_.show(all_plans(draft));
  int drafts = 0;
  for (int row = 0; row < model_.rowCount(); ++row) {
    EXPECT_NEAR(sum(row), value(row, model_.parts()), 1e-9 * sum(row));
    drafts += model_.index(row, 0).data(StackModel::DraftRole).toBool();
  }
  EXPECT_EQ(drafts, model_.rowCount() - 1);
  EXPECT_TRUE(model_.index(1, 0).data(Qt::ToolTipRole).toString().contains("first estimate"));
}

TEST_P(StackModelTest, EveryCellAndHeaderSaysWhatItIs) {
  model_.show(all_plans(test::readme()));
  for (int column = 0; column < model_.columnCount(); ++column) {
    EXPECT_FALSE(model_.headerData(column, Qt::Horizontal).toString().isEmpty());
    const QString meaning = model_.headerData(column, Qt::Horizontal, Qt::ToolTipRole).toString();
    EXPECT_GT(meaning.size(), 20);
    for (int row = 0; row < model_.rowCount(); ++row) {
      const QModelIndex index = model_.index(row, column);
      const QString spoken = index.data(Qt::AccessibleTextRole).toString();
      EXPECT_TRUE(spoken.startsWith(model_.headerData(row, Qt::Vertical).toString())) << spoken.toStdString();
      EXPECT_TRUE(spoken.contains(index.data(StackModel::ValueTextRole).toString())) << spoken.toStdString();
      EXPECT_FALSE(index.data(Qt::ToolTipRole).toString().isEmpty());
    }
  }
}

TEST_P(StackModelTest, ShowingAnotherSubjectResets) {
  model_.show(all_plans(test::readme()));
  QSignalSpy reset(&model_, &QAbstractItemModel::modelReset);
  model_.show({});
  EXPECT_EQ(reset.count(), 1);
  EXPECT_EQ(model_.rowCount(), 0);
  EXPECT_GT(model_.columnCount(), 0);
}

class StackFigures : public ::testing::Test {
 protected:
  /// A report's plans and the model's rows are in the same order.
  StackFigures() : json_(report_json(report_of(*test::two_nodes()))) {}
  void show(StackModel& model) { model.show(all_plans(test::two_nodes())); }
  static double value(const StackModel& model, int row, int column) {
    return model.index(row, column).data(StackModel::ValueRole).toDouble();
  }

  Json json_;
};

TEST_F(StackFigures, MemoryIsTheReports) {
  StackModel model(Kind::memory);
  show(model);
  ASSERT_EQ(json_["plans"].size(), static_cast<std::size_t>(model.rowCount()));
  for (int row = 0; row < model.rowCount(); ++row) {
    const Json& memory = json_["plans"][static_cast<std::size_t>(row)]["memory"];
    int column = 0;
    for (const auto& each : EnumNames<MemoryPart>::table)
      EXPECT_EQ(value(model, row, column++), memory[std::string(each.second)].get<double>()) << each.second;
    EXPECT_EQ(value(model, row, 8), memory["required"].get<double>() - memory["peak"].get<double>());
    EXPECT_EQ(value(model, row, 9), memory["required"].get<double>());
    const auto marks = model.index(row, 0).data(StackModel::MarksRole).value<QVector<StackModel::Mark>>();
    ASSERT_EQ(marks.size(), 3);
    EXPECT_EQ(marks[0].value, json_["cluster"]["available_memory_bytes"].get<double>());
    EXPECT_EQ(marks[1].value, json_["cluster"]["usable_memory_bytes"].get<double>());
    EXPECT_EQ(marks[2].value, json_["cluster"]["memory_bytes"].get<double>());
    EXPECT_TRUE(marks[0].strong && !marks[1].strong && !marks[2].strong);
  }
}

TEST_F(StackFigures, TimeIsTheReports) {
  StackModel model(Kind::time);
  show(model);
  const std::vector<std::string> keys{"compute", "launching", "exposed_communication",
                                      "offload", "optimizer", "step"};
  for (int row = 0; row < model.rowCount(); ++row)
    for (std::size_t i = 0; i < keys.size(); ++i)
      EXPECT_EQ(value(model, row, static_cast<int>(i)),
                json_["plans"][static_cast<std::size_t>(row)]["time"][keys[i]].get<double>());
  EXPECT_TRUE(model.index(0, 0).data(StackModel::MarksRole).value<QVector<StackModel::Mark>>().isEmpty());
}

TEST_F(StackFigures, TrafficIsTheReports) {
  StackModel model(Kind::traffic);
  show(model);
  double outside = 0;
  for (int row = 0; row < model.rowCount(); ++row) {
    const Json& communication = json_["plans"][static_cast<std::size_t>(row)]["communication"];
    EXPECT_EQ(value(model, row, 3), communication["inside_bytes_per_gpu"].get<double>() +
                                        communication["outside_bytes_per_gpu"].get<double>());
    outside += communication["outside_bytes_per_gpu"].get<double>();
  }
  EXPECT_GT(outside, 0);
}

TEST(StackModelText, FiguresReadAsTheCommandLineWritesThem) {
  const PlannedPtr planned = test::readme();
  StackModel memory(Kind::memory), time(Kind::time), traffic(Kind::traffic);
  for (StackModel* each : {&memory, &time, &traffic}) each->show({{"8B", planned, 0}});
  const Plan& plan = planned->plan();
  EXPECT_EQ(memory.index(0, 9).data().toString().toStdString(), format_bytes(plan.memory().required));
  EXPECT_EQ(time.index(0, 5).data().toString().toStdString(), seconds_value(plan.time.step) + " s");
  EXPECT_EQ(
      traffic.index(0, 3).data().toString().toStdString(),
      format_bytes(plan.communication().inside_bytes_per_gpu() + plan.communication().outside_bytes_per_gpu(),
                   ByteUnit::gb));
}

TEST(StackModelText, UnitsFollowTheQuestion) {
  StackModel model(Kind::memory);
  const PlannedPtr gb =
      test::planned({"--model", "8B", "--gpus", "5", "--mem", "44", "--units", "GB"}, Depth::full, "GB");
  model.show({{"a", gb, 0}});
  EXPECT_TRUE(model.index(0, 9).data().toString().endsWith(" GB"));
  EXPECT_EQ(model.headerData(0, Qt::Horizontal, StackModel::ScaleRole).value<Scale>(), (Scale{1e9, "GB"}));
  model.show({{"a", gb, 0}, {"b", test::readme(), 0}});
  EXPECT_EQ(model.headerData(0, Qt::Horizontal, StackModel::ScaleRole).value<Scale>().name, "GiB");
}

TEST(StackModelText, TooltipsHaveFormulaAndSourceOfThatPlan) {
  const PlannedPtr planned = test::readme();
  StackModel model(Kind::memory);
  model.show(all_plans(planned));
  const Explanation explanation = explain(planned->answer.plans[0], planned->question);
  const Section& section = explanation.sections.front();
  ASSERT_EQ(section.name, "memory");
  QString unbroken = model.index(0, 2).data(Qt::ToolTipRole).toString().simplified();
  int found = 0;
  for (const Figure& figure : section.figures) {
    if (!figure.name.starts_with("optimizer states")) continue;
    ++found;
    for (const std::string& part : {figure.value, figure.formula, figure.source})
      EXPECT_TRUE(unbroken.contains(QString::fromStdString(part).simplified())) << part;
  }
  EXPECT_GT(found, 0);
  const QString slack = model.index(0, 8).data(Qt::ToolTipRole).toString();
  EXPECT_TRUE(slack.contains("docs/allocator.md")) << slack.toStdString();
}

TEST(StackModelText, WhatDoesNotFitIsSaid) {
  const PlannedPtr planned = test::too_small();
  StackModel model(Kind::memory);
  model.show(all_plans(planned));
  for (int row = 0; row < model.rowCount(); ++row) {
    EXPECT_TRUE(model.index(row, 0).data(StackModel::WarningRole).toBool());
    EXPECT_TRUE(model.index(row, 0).data(StackModel::VerdictRole).toString().startsWith("short by "));
    EXPECT_TRUE(model.index(row, 9).data(Qt::AccessibleTextRole).toString().contains("short by "));
  }
  EXPECT_EQ(model.index(0, 0).data(StackModel::NoteRole).toString(), ", short");
  StackModel time(Kind::time);
  time.show(all_plans(planned));
  EXPECT_EQ(time.index(0, 0).data(StackModel::NoteRole).toString(), ", does not fit");
  model.show(all_plans(test::readme()));
  EXPECT_TRUE(model.index(0, 0).data(StackModel::NoteRole).toString().isEmpty());
  EXPECT_FALSE(model.index(0, 0).data(StackModel::WarningRole).toBool());
  EXPECT_TRUE(model.index(0, 9).data(Qt::AccessibleTextRole).toString().endsWith("; fits"));
}

TEST(StackModelText, ASavedReportHasFiguresWithoutFormulas) {
  const QTemporaryDir folder;
  const QString path =
      test::write(folder.filePath("report.json"),
                  QByteArray::fromStdString(report_json(report_of(*test::two_nodes())).dump()));
  const PlannedPtr saved = plan_scenario({.name = "saved", .arguments = {}, .report = path.toStdString()},
                                         Environment{}, Depth::full);
  for (const Kind kind : {Kind::memory, Kind::time, Kind::traffic}) {
    StackModel now(kind), then(kind);
    now.show(all_plans(test::two_nodes()));
    then.show(all_plans(saved));
    ASSERT_EQ(now.rowCount(), then.rowCount());
    for (int row = 0; row < now.rowCount(); ++row)
      for (int column = 0; column < now.columnCount(); ++column)
        EXPECT_EQ(now.index(row, column).data(StackModel::ValueRole),
                  then.index(row, column).data(StackModel::ValueRole));
    EXPECT_FALSE(then.index(0, 0).data(Qt::ToolTipRole).toString().contains("source:"));
  }
}

}  // namespace
}  // namespace zplan::gui
