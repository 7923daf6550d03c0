#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QLabel>
#include <QLineEdit>
#include <QSpinBox>
#include <QTableView>
#include <QTest>

#include "gui/main_window.h"

namespace zplan::gui {
namespace {

class Window : public ::testing::Test {
 protected:
  [[nodiscard]] QAbstractItemModel& plans() { return *window_.findChild<QTableView*>()->model(); }
  [[nodiscard]] QString cell(int row, int column) { return plans().index(row, column).data().toString(); }
  /// Everything that the labels say.
  [[nodiscard]] QString labels() {
    QString all;
    for (const QLabel* label : window_.findChildren<QLabel*>()) all += label->text() + "\n";
    return all;
  }

  MainWindow window_;
};

TEST_F(Window, StartsWithTheQuestionOfTheReadme) {
  EXPECT_EQ(cell(0, PlanTableModel::strategy), "zero3");
  EXPECT_EQ(cell(0, PlanTableModel::verdict), "fits");
  EXPECT_TRUE(labels().contains("Recommended: zero3"));
}

TEST_F(Window, TheTableIsAProperItemModel) {
  const QAbstractItemModelTester tester(&plans(), QAbstractItemModelTester::FailureReportingMode::Fatal);
  window_.findChild<QSpinBox*>()->setValue(16);
  EXPECT_GT(plans().rowCount(), 0);
}

TEST_F(Window, AnotherNumberOfGpusIsPlannedAtOnce) {
  const QString before = cell(0, PlanTableModel::needs);
  window_.findChild<QSpinBox*>()->setValue(64);
  EXPECT_NE(cell(0, PlanTableModel::needs), before);
}

TEST_F(Window, AnUnknownModelIsNamedAndTheLastAnswerStays) {
  auto* model = window_.findChild<QLineEdit*>(QString(), Qt::FindChildrenRecursively);
  const int rows = plans().rowCount();
  for (QLineEdit* each : window_.findChildren<QLineEdit*>())
    if (each->text() == "8B") model = each;
  model->clear();
  QTest::keyClicks(model, "no-such-model");
  QTest::keyClick(model, Qt::Key_Return);
  EXPECT_TRUE(labels().contains("no-such-model"));
  EXPECT_EQ(plans().rowCount(), rows);
}

}  // namespace
}  // namespace zplan::gui

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  ::testing::InitGoogleTest(&argc, argv);
  const QApplication application(argc, argv);
  return RUN_ALL_TESTS();
}
