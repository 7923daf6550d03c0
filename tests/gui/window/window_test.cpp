// Clicks and keys through the window.

#include <QAccessible>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QSlider>
#include <QToolButton>

#include "gui/charts/bar_chart.h"
#include "gui/charts/scatter_chart.h"
#include "gui/models/stack_model.h"
#include "gui/session/words.h"
#include "gui/tables/text_table_model.h"
#include "gui/window/help_window.h"
#include "window_support.h"

namespace zplan::gui {
namespace {

/// Threads of this process.
int threads() {
  return static_cast<int>(QDir("/proc/self/task").entryList(QDir::Dirs | QDir::NoDotAndDotDot).size());
}

TEST_F(WindowTest, BeginsWithTheQuestionOfTheReadme) {
  ASSERT_EQ(session().size(), 1);
  const QString banner = find<QLabel>("banner")->text();
  EXPECT_TRUE(banner.contains("zero3")) << banner.toStdString();
  EXPECT_TRUE(banner.contains("34.1 of 39.1 GiB per GPU")) << banner.toStdString();
  EXPECT_TRUE(banner.contains("tokens/s")) << banner.toStdString();
  EXPECT_TRUE(find<QLabel>("about")->text().startsWith("8B, full fine-tuning"));
  EXPECT_EQ(window_.view().mode(), ComparisonView::Mode::strategies);
  EXPECT_EQ(find<QListView>("scenarios")->model()->rowCount(), 1);
}

TEST_F(WindowTest, AddingDuplicatingDeletingByKeys) {
  press(Qt::Key_N, Qt::ControlModifier | Qt::ShiftModifier);
  press(Qt::Key_D, Qt::ControlModifier);
  EXPECT_EQ(session().size(), 3);
  EXPECT_EQ(window_.view().mode(), ComparisonView::Mode::scenarios);
  settle();
  EXPECT_EQ(find<BarChart>("memory")->model()->rowCount(), 3);
  QTest::keyClick(find<QListView>("scenarios"), Qt::Key_Delete);
  EXPECT_EQ(session().size(), 2);
  press(Qt::Key_Z, Qt::ControlModifier);
  EXPECT_EQ(session().size(), 3);
  press(Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
  EXPECT_EQ(session().size(), 2);
}

TEST_F(WindowTest, RenamingInTheList) {
  auto* list = find<QListView>("scenarios");
  list->setFocus();
  press(Qt::Key_F2);
  auto* field = list->findChild<QLineEdit*>();
  ASSERT_NE(field, nullptr);
  field->selectAll();
  QTest::keyClicks(field, "five GPUs");
  QTest::keyClick(field, Qt::Key_Return);
  QCoreApplication::processEvents();  // editors hand over what was typed when events are next delivered
  EXPECT_EQ(session().at(0).scenario.name, "five GPUs");
  press(Qt::Key_Z, Qt::ControlModifier);
  EXPECT_EQ(session().at(0).scenario.name, first_scenario().name);
}

TEST_F(WindowTest, ANameThatIsBeingTypedIsSavedAndHasItsOwnUndo) {
  auto* name = find<QLineEdit>("name");
  name->setFocus();
  name->selectAll();
  QTest::keyClicks(name, "typed");
  QTest::keyClick(name, Qt::Key_Z, Qt::ControlModifier);
  EXPECT_EQ(name->text(), qt(first_scenario().name));
  name->end(false);  // what is taken back comes back selected
  QTest::keyClicks(name, "!");
  const QTemporaryDir folder;
  const QString path = folder.filePath("named.zplan");
  window_.dialogs.file_to_write = [path](const QString&, const QString&, const QString&) { return path; };
  trigger("save");
  EXPECT_EQ(session().at(0).scenario.name, first_scenario().name + "!");
}

TEST_F(WindowTest, KeysLeadIntoEveryTab) {
  for (const QAction* action : window_.findChildren<QAction*>()) {
    if (!action->shortcut().toString().startsWith("Alt+Shift+")) continue;
    const_cast<QAction*>(action)->trigger();
    const QWidget* focus = QApplication::focusWidget();
    ASSERT_NE(focus, nullptr) << action->text().toStdString();
    EXPECT_NE(focus->focusPolicy(), Qt::NoFocus) << action->text().toStdString();
    EXPECT_TRUE(find<QTabWidget>("tables")->currentWidget()->isAncestorOf(focus) ||
                find<QTabWidget>("tables")->currentWidget() == focus)
        << action->text().toStdString();
  }
}

TEST_F(WindowTest, AClickOnATickTakesAScenarioOutOfTheComparison) {
  press(Qt::Key_D, Qt::ControlModifier);
  settle();
  auto* list = find<QListView>("scenarios");
  const QRect row = list->visualRect(list->model()->index(0, 0));
  QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, row.topLeft() + QPoint(10, 12));
  EXPECT_FALSE(session().at(0).scenario.compared);
  settle();
  EXPECT_EQ(find<BarChart>("memory")->model()->rowCount(), 1);
}

TEST_F(WindowTest, TheBaselineIsPinnedAndMarked) {
  press(Qt::Key_D, Qt::ControlModifier);
  press(Qt::Key_B, Qt::ControlModifier);
  settle();
  EXPECT_EQ(session().baseline(), 1);
  show_table(0);
  EXPECT_TRUE(
      comparison().headerData(comparison().columnCount() - 1, Qt::Horizontal).toString().contains("(2)"));
  trigger("unpin");
  EXPECT_EQ(session().baseline(), 0);
}

TEST_F(WindowTest, DifferencesOnlyLeavesOutLinesThatAreAlike) {
  press(Qt::Key_D, Qt::ControlModifier);
  settle();
  const int all = comparison().rowCount();
  QTest::mouseClick(find<QToolButton>("differences"), Qt::LeftButton);
  settle();
  EXPECT_GT(all, 20);
  EXPECT_EQ(comparison().rowCount(), 0);
  session().set_arguments(1, {"--model", "8B", "--gpus", "6", "--mem", "44"});
  settle();
  EXPECT_GT(comparison().rowCount(), 3);
  EXPECT_LT(comparison().rowCount(), all);
}

TEST_F(WindowTest, OnlyTheComparisonCanLeaveLinesOut) {
  EXPECT_TRUE(find<QToolButton>("differences")->isVisible());
  show_table(1);
  EXPECT_FALSE(find<QToolButton>("differences")->isVisible());
  show_table(0);
  EXPECT_TRUE(find<QToolButton>("differences")->isVisible());
}

TEST_F(WindowTest, AClickOnABarChoosesItsStrategy) {
  auto* chart = find<BarChart>("memory");
  const QPointF bar = chart->place_of(chart->model()->index(4, 0)).center();
  QTest::mouseDClick(chart->viewport(), Qt::LeftButton, {}, bar.toPoint());
  EXPECT_EQ(session().at(0).scenario.strategy, "zero2");
  settle();
  EXPECT_TRUE(find<QLabel>("banner")->text().contains("zero2"));
  press(Qt::Key_Z, Qt::ControlModifier);
  EXPECT_EQ(session().at(0).scenario.strategy, "");
}

TEST_F(WindowTest, AClickInTheTradeOffChoosesItsStrategy) {
  show_chart(4);
  auto* chart = find<ScatterChart>("tradeoff");
  Q_EMIT chart->activated(0, "zero3+offload-all");
  EXPECT_EQ(session().at(0).scenario.strategy, "zero3+offload-all");
}

TEST_F(WindowTest, AClickInTheTableOfStrategiesChooses) {
  show_table(1);
  auto* table = find<QTableView>("strategies");
  const QRect cell = table->visualRect(table->model()->index(2, 0));
  QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, cell.center());
  EXPECT_EQ(qt(session().at(0).scenario.strategy),
            table->model()->index(2, 0).data(StrategiesModel::IdRole).toString());
}

TEST_F(WindowTest, EveryTabShowsTheAnswer) {
  for (int tab = 0; tab < window_.view().charts().count(); ++tab) {
    show_chart(tab);
    EXPECT_GT(window_.view().chart().model()->rowCount(), 0) << tab;
    EXPECT_TRUE(find<QToolButton>("validated")->text().startsWith("Validated: ")) << tab;
  }
  for (int tab = 0; tab < window_.view().tables().count(); ++tab) {
    show_table(tab);
    QCoreApplication::processEvents();
  }
}

TEST_F(WindowTest, WhatFiguresWereValidatedAgainstIsOneLineThatOpens) {
  auto* line = find<QToolButton>("validated");
  auto* details = find<QPlainTextEdit>("validation details");
  EXPECT_FALSE(line->text().endsWith(QChar(0x2026))) << line->text().toStdString();
  EXPECT_EQ(line->accessibleName(), line->text());
  EXPECT_FALSE(details->isVisible());
  line->setFocus();
  QTest::keyClick(line, Qt::Key_Space);
  EXPECT_TRUE(details->isVisible());
  EXPECT_TRUE(details->toPlainText().contains("recorded steps of deepspeed, full"));
  show_chart(2);
  EXPECT_TRUE(details->toPlainText().startsWith("step time"));
  QTest::keyClick(line, Qt::Key_Space);
  EXPECT_FALSE(details->isVisible());
}

TEST_F(WindowTest, AWrongOptionIsSaidAndTheAnswerStays) {
  session().set_arguments(0, {"--model", "8B", "--gpus", "5", "--mem", "44", "--seq", "0"});
  settle();
  EXPECT_TRUE(find<QLabel>("banner")->text().contains("--seq"));
  EXPECT_GT(find<BarChart>("memory")->model()->rowCount(), 1);
}

TEST_F(WindowTest, AnAnswerToAnEarlierQuestionIsMarkedAndDoesNotGoOut) {
  press(Qt::Key_D, Qt::ControlModifier);
  session().set_arguments(1, {"--model", "8B", "--gpus", "none"});
  settle();
  int baseline = -1;
  const Subjects all = window_.view().subjects(&baseline);
  ASSERT_EQ(all.size(), 1U);  // the duplicate never had an answer
  session().set_arguments(0, {"--model", "8B", "--gpus", "none"});
  settle();
  const Subjects stale = window_.view().subjects(&baseline);
  ASSERT_EQ(stale.size(), 1U);
  EXPECT_TRUE(stale[0].is_draft());
  EXPECT_TRUE(stale[0].title.contains("before the change"));
  trigger("copy_table");
  EXPECT_FALSE(window_.message().isEmpty());
}

TEST_F(WindowTest, WhereNothingFitsTheVerdictSaysOnWhatItWould) {
  session().set_arguments(
      0, {"--model", "8B", "--gpus", "5", "--mem", "44", "--zero", "2", "--offload", "none"});
  settle();
  EXPECT_TRUE(find<QLabel>("banner")->text().startsWith("Does not fit. The nearest, zero2, needs "));
  const QString about = find<QLabel>("about")->text();
  EXPECT_TRUE(about.contains(". It would fit on ")) << about.toStdString();
}

TEST_F(WindowTest, WhatWouldFitInsteadIsAddedByAClick) {
  auto* take = find<QToolButton>("alternative");
  EXPECT_FALSE(take->isVisible()) << "it fits";
  session().set_arguments(
      0, {"--model", "70B", "--gpus", "2", "--gpu", "RTX-3090-24GB", "--method", "qlora", "--seq", "512"});
  settle();
  settle();
  ASSERT_TRUE(take->isVisible());
  const std::string instead = session().at(0).planned->answer.alternative->id();
  take->click();
  ASSERT_EQ(session().size(), 2);
  settle();
  EXPECT_FALSE(session().at(1).problem);
  EXPECT_TRUE(session().at(1).planned->plan().fits);
  EXPECT_EQ(session().at(1).planned->plan().id(), instead);
  EXPECT_FALSE(take->isVisible()) << "the added one is the current one, and fits";
}

TEST_F(WindowTest, WhyAndConfigAreNeverOfAnotherScenario) {
  press(Qt::Key_D, Qt::ControlModifier);
  session().set_arguments(1, {"--model", "8B", "--gpus", "none"});
  settle();
  show_table(2);
  session().set_current(0);
  settle();
  session().set_current(1);
  settle();
  EXPECT_FALSE(
      find<QTabWidget>("tables")->currentWidget()->property("headline").toString().contains("zero3"));
}

TEST_F(WindowTest, ANameIsFitForItsFile) {
  session().rename(0, QString::fromUtf8("a\x1b[31m\tb\n"));
  EXPECT_EQ(session().at(0).scenario.name, "a[31m b");
  for (int i = 0; i < 300; ++i) session().duplicate(0);
  EXPECT_EQ(session().size(), static_cast<int>(kMostScenarios));
}

TEST_F(WindowTest, ARenamedScenarioIsCalledSoEverywhere) {
  session().rename(0, "renamed");
  EXPECT_EQ(session().at(0).planned->scenario.name, "renamed");
  press(Qt::Key_Z, Qt::ControlModifier);
  EXPECT_EQ(session().at(0).planned->scenario.name, first_scenario().name);
}

TEST_F(WindowTest, TwoHundredSliderMovesEndWithTheLastAnswerAndNoThreadBehind) {
  const int before = threads();
  {
    MainWindow window{Environment{}};
    window.start({});
    window.show();
    auto& other = window.session();
    for (int i = 1; i <= 200; ++i) {
      other.set_arguments(0, {"--model", "8B", "--gpus", "5", "--mem", "44", "--seq", std::to_string(64 * i)},
                          "--seq");
      QCoreApplication::processEvents();
    }
    ASSERT_TRUE(test::wait_until([&] { return other.planning().is_idle(); }));
    QCoreApplication::processEvents();
    EXPECT_EQ(other.undo_stack().count(), 1);
    const json last = printed({"--model", "8B", "--gpus", "5", "--mem", "44", "--seq", "12800"})["plans"][0];
    const double shown =
        window.findChild<BarChart*>("memory")->model()->index(0, 0).data(StackModel::TotalRole).toDouble();
    EXPECT_EQ(shown, last["memory"]["required"].get<double>());
  }
  EXPECT_TRUE(test::wait_until([before] { return threads() <= before; })) << threads() << " after " << before;
}

TEST_F(WindowTest, ClosingInTheMiddleOfPlanningIsNoTrouble) {
  for (int i = 0; i < 5; ++i) {
    MainWindow window{Environment{}};
    window.start({"--model", "70B", "--gpus", std::to_string(8 << i).c_str(), "--gpu", "h100-sxm"});
    window.show();
    QCoreApplication::processEvents();
  }
}

TEST_F(WindowTest, HelpIsAboutWhatHasTheFocus) {
  find<QListView>("scenarios")->setFocus();
  press(Qt::Key_F1);
  const auto* help = window_.findChild<HelpWindow*>();
  ASSERT_NE(help, nullptr);
  EXPECT_EQ(help->topic(), "Scenarios");
  trigger("shortcuts");
  EXPECT_EQ(help->topic(), "Keys");
}

TEST_F(WindowTest, ShortcutsAreGivenOnce) {
  std::map<QString, QString> taken;
  for (const QAction* action : window_.findChildren<QAction*>())
    for (const QKeySequence& keys : action->shortcuts()) {
      EXPECT_FALSE(taken.contains(keys.toString()))
          << keys.toString().toStdString() << " of " << action->text().toStdString();
      taken[keys.toString()] = action->text();
    }
  EXPECT_GT(taken.size(), 25U);
}

TEST_F(WindowTest, EverythingThatTakesTheFocusHasAName) {
  for (const QWidget* widget : window_.findChildren<QWidget*>()) {
    if (widget->focusPolicy() == Qt::NoFocus || !widget->isVisible() ||
        widget->objectName().startsWith("qt_"))
      continue;
    QAccessibleInterface* spoken = QAccessible::queryAccessibleInterface(const_cast<QWidget*>(widget));
    ASSERT_NE(spoken, nullptr);
    EXPECT_FALSE(spoken->text(QAccessible::Name).isEmpty())
        << widget->metaObject()->className() << " " << widget->objectName().toStdString() << " in "
        << widget->parentWidget()->metaObject()->className();
  }
}

TEST_F(WindowTest, TabLeadsThroughThePanelsAndBack) {
  find<QListView>("scenarios")->setFocus();
  QSet<QString> seen;
  for (int i = 0; i < 200; ++i) {
    const QWidget* focus = QApplication::focusWidget();
    ASSERT_NE(focus, nullptr);
    for (const QWidget* each = focus; each != nullptr; each = each->parentWidget())
      seen << each->objectName();
    if (i > 10 && focus->objectName() == "scenarios") break;
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
  }
  for (const char* name : {"scenarios", "charts", "tables", "editors", "comparison", "memory"})
    EXPECT_TRUE(seen.contains(name)) << name;
}

}  // namespace
}  // namespace zplan::gui
