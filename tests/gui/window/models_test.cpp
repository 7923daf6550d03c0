#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QMimeData>

#include "gui/session/words.h"
#include "gui/tables/comparison_model.h"
#include "gui/tables/scenario_list.h"
#include "gui/tables/text_table_model.h"
#include "tests/gui/support.h"

namespace zplan::gui {
namespace {

constexpr auto kFatal = QAbstractItemModelTester::FailureReportingMode::Fatal;

PlannedPtr plan(const std::vector<std::string>& arguments, Depth depth = Depth::full) {
  return plan_scenario({.name = "one", .arguments = arguments}, Environment{}, depth);
}

Subjects strategies_of(const PlannedPtr& planned) {
  Subjects all;
  for (std::size_t i = 0; i < planned->answer.plans.size(); ++i)
    all.push_back({qt(planned->answer.plans[i].id()), planned, i});
  return all;
}

TEST(ComparisonModelTest, IsAProperModelThroughEveryChange) {
  ComparisonModel model;
  const QAbstractItemModelTester tester(&model, kFatal);
  const Subjects five = strategies_of(plan({"--model", "8B", "--gpus", "5", "--mem", "44"}));
  model.show(five, 0, false);
  const int all = model.rowCount();
  model.show(five, 1, false);
  EXPECT_EQ(model.rowCount(), all);
  EXPECT_EQ(model.columnCount(), 2 * static_cast<int>(five.size()) - 1);
  model.show({five[0], five[0]}, 0, true);
  EXPECT_EQ(model.rowCount(), 0);  // alike in everything
  EXPECT_GT(model.left_out(), 20);
  model.show(strategies_of(plan({"--model", "8B"}, Depth::draft)), 0, true);
  model.show({}, -1, false);
  EXPECT_EQ(model.rowCount(), 0);
  EXPECT_EQ(model.columnCount(), 0);
}

TEST(ComparisonModelTest, OneSignMarksTheBestAndAnotherWhatIsNotThere) {
  ComparisonModel model;
  model.show(strategies_of(plan({"--model", "8B", "--gpus", "5", "--mem", "44"})), 0, false);
  int best = 0, absent = 0;
  for (int row = 0; row < model.rowCount(); ++row)
    for (int column = 0; column < model.columnCount(); ++column) {
      const QModelIndex index = model.index(row, column);
      if (index.data(ComparisonModel::DifferenceRole).toBool()) continue;
      const QString text = index.data().toString();
      const bool is_best = index.data(ComparisonModel::BestRole).toBool();
      EXPECT_EQ(text.startsWith("* "), is_best) << text.toStdString();
      EXPECT_EQ(index.data(Qt::AccessibleTextRole).toString().contains("best"), is_best);
      EXPECT_FALSE(index.data(Qt::FontRole).value<QFont>().bold());
      EXPECT_NE(text, "0.00");
      EXPECT_FALSE(is_best && text.endsWith("–"));
      best += is_best, absent += text == "–";
    }
  EXPECT_GT(best, 5);
  EXPECT_GT(absent, 5) << "offloaded states are not there";
  EXPECT_TRUE(ComparisonModel::legend().contains("*"));
  EXPECT_TRUE(ComparisonModel::legend().contains("–"));
}

TEST(ComparisonModelTest, AFigureIsExplainedWithFormulaAndSource) {
  ComparisonModel model;
  const Subjects all = strategies_of(plan({"--model", "8B", "--gpus", "5", "--mem", "44"}));
  model.show({all.front()}, 0, false);
  int explained = 0;
  for (int row = 0; row < model.rowCount(); ++row)
    if (model.index(row, 0).data(Qt::ToolTipRole).toString().contains("source: ")) ++explained;
  EXPECT_GE(explained, 12);
}

TEST(StrategiesModelTest, IsAProperModelThroughEveryChange) {
  StrategiesModel model;
  const QAbstractItemModelTester tester(&model, kFatal);
  const PlannedPtr five = plan({"--model", "8B", "--gpus", "5", "--mem", "44"});
  model.show(five);
  ASSERT_EQ(model.rowCount(), static_cast<int>(five->answer.plans.size()));
  EXPECT_EQ(model.index(0, 0).data().toString(), "zero3");
  EXPECT_TRUE(model.index(0, 0).data(StrategiesModel::ShownRole).toBool());
  model.show(plan({"--model", "8B", "--zero", "2,3", "--gpus", "2"}, Depth::draft));
  model.show(nullptr);
  EXPECT_EQ(model.rowCount(), 0);
}

TEST(ScenarioListModelTest, IsAProperModelThroughEveryChange) {
  Session session{Environment{}};
  ScenarioListModel model(session);
  const QAbstractItemModelTester tester(&model, kFatal);
  session.add({.name = "a", .arguments = {"--model", "8B"}});
  session.add({.name = "b", .arguments = {"--model", "none such"}});
  session.duplicate(0);
  session.move(0, 2);
  session.move(2, 1);
  session.remove(1);
  while (session.undo_stack().canUndo()) session.undo_stack().undo();
  while (session.undo_stack().canRedo()) session.undo_stack().redo();
  ASSERT_TRUE(test::wait_until([&] { return session.planning().is_idle(); }));
  EXPECT_EQ(model.rowCount(), 2);
  EXPECT_TRUE(model.index(1).data(ScenarioListModel::ProblemRole).toBool());
  EXPECT_TRUE(model.index(1).data(ScenarioListModel::SummaryRole).toString().contains("none such"));
  session.load({});
  EXPECT_EQ(model.rowCount(), 0);
}

TEST(ScenarioListModelTest, IsRenamedTickedAndDraggedAsAnyList) {
  Session session{Environment{}};
  ScenarioListModel model(session);
  const QAbstractItemModelTester tester(&model, kFatal);
  for (const char* name : {"a", "b", "c"}) session.add({.name = name, .arguments = {"--model", "8B"}});
  EXPECT_TRUE(model.setData(model.index(0), "renamed", Qt::EditRole));
  EXPECT_TRUE(model.setData(model.index(1), Qt::Unchecked, Qt::CheckStateRole));
  EXPECT_FALSE(session.at(1).scenario.compared);
  const std::unique_ptr<QMimeData> dragged(model.mimeData({model.index(0)}));
  model.dropMimeData(dragged.get(), Qt::MoveAction, 3, 0, {});
  EXPECT_EQ(model.index(2).data().toString(), "renamed");
  model.dropMimeData(dragged.get(), Qt::MoveAction, -1, -1, {});
  EXPECT_EQ(model.index(2).data().toString(), "b");
  EXPECT_FALSE(model.dropMimeData(nullptr, Qt::MoveAction, 0, 0, {}));
}

}  // namespace
}  // namespace zplan::gui
