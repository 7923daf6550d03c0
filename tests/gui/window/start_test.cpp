// The first start: three questions, examples, and the way into the usual window.

#include <QAccessible>
#include <QDockWidget>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QTemporaryDir>

#include "gui/editors/option_field.h"
#include "gui/window/start_page.h"
#include "window_support.h"

namespace zplan::gui {
namespace {

class StartTest : public ::testing::Test {
 protected:
  StartTest() {
    window_->start({}, true);
    window_->show();
    EXPECT_TRUE(QTest::qWaitForWindowExposed(window_.get()));
  }
  [[nodiscard]] StartPage* page() const { return window_->findChild<StartPage*>("start_page"); }
  [[nodiscard]] bool has_page() const {
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    return page() != nullptr;
  }
  [[nodiscard]] const std::vector<std::string>& arguments() const {
    return window_->session().at(0).scenario.arguments;
  }
  void type(const char* option, const QString& text) const {
    QWidget* input = page()->field(option)->editor()->inputs().front();
    input->setFocus();
    QTest::keyClicks(input, text);
  }
  [[nodiscard]] bool shows_panels() const {
    return std::ranges::all_of(window_->findChildren<QDockWidget*>(), &QWidget::isVisible);
  }

  QTemporaryDir home_;
  std::unique_ptr<MainWindow> window_{
      std::make_unique<MainWindow>(Environment{}, home_.filePath("sessions"))};
};

TEST_F(StartTest, ThreeQuestionsStandInPlaceOfAnExample) {
  ASSERT_TRUE(has_page());
  EXPECT_TRUE(window_->session().is_empty());
  EXPECT_TRUE(page()->isVisible());
  EXPECT_FALSE(window_->view().isVisible());
  EXPECT_FALSE(std::ranges::any_of(window_->findChildren<QDockWidget*>(), &QWidget::isVisible));
  EXPECT_TRUE(page()->field("--model")->editor()->inputs().front()->hasFocus());
  EXPECT_FALSE(page()->findChild<QPushButton*>("plan")->isEnabled()) << "no model yet";
}

TEST_F(StartTest, AnswersLeadToTheirScenario) {
  type("--model", "qwen3-14b");
  type("--gpus", "4");
  type("--gpu", "A100-SXM-80GB");
  QWidget* method = page()->field("--method")->editor()->inputs().front();
  QTest::keyClicks(method, "qlora");
  // The box tells of a choice when it is activated.
  Q_EMIT page()->field("--method")->editor()->edited("qlora", Step::own);
  QTest::keyClick(method, Qt::Key_Return);
  EXPECT_FALSE(has_page());
  EXPECT_TRUE(shows_panels());
  EXPECT_TRUE(window_->view().isVisible());
  ASSERT_EQ(window_->session().size(), 1);
  EXPECT_EQ(arguments(), (std::vector<std::string>{"--model", "qwen3-14b", "--gpus", "4", "--gpu",
                                                   "A100-SXM-80GB", "--method", "qlora"}));
}

TEST_F(StartTest, AnAnswerCanBeTakenBack) {
  type("--model", "8B");
  type("--mem", "44");
  EXPECT_TRUE(page()->findChild<QPushButton*>("plan")->isEnabled());
  QLineEdit* memory = qobject_cast<QLineEdit*>(page()->field("--mem")->editor()->inputs().front());
  memory->clear();
  EXPECT_EQ(page()->arguments(), (std::vector<std::string>{"--model", "8B"}));
}

TEST_F(StartTest, AnExampleIsTakenAtOnce) {
  const QList<QPushButton*> examples = page()->findChildren<QPushButton*>("example");
  ASSERT_EQ(examples.size(), 3);
  examples[1]->setFocus();
  QTest::keyClick(examples[1], Qt::Key_Return);
  EXPECT_FALSE(has_page());
  ASSERT_TRUE(test::wait_until([&] { return window_->session().planning().is_idle(); }));
  EXPECT_FALSE(window_->session().at(0).problem);
  EXPECT_EQ(window_->session().at(0).planned->question.training.method, Method::qlora);
}

TEST_F(StartTest, EscapeAndSkipKeepTheDefault) {
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Escape);
  EXPECT_FALSE(has_page());
  EXPECT_EQ(arguments(), first_scenario().arguments);
  MainWindow other{Environment{}};
  other.start({}, true);
  other.findChild<StartPage*>()->findChild<QPushButton*>("skip")->click();
  EXPECT_EQ(other.session().at(0).scenario, first_scenario());
}

TEST_F(StartTest, EverythingThatTakesTheFocusHasANameAndItsTurn) {
  QSet<const QWidget*> turns;
  for (int i = 0; i < 40; ++i) {
    turns << QApplication::focusWidget();
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
  }
  for (QWidget* each : page()->findChildren<QWidget*>()) {
    if ((each->focusPolicy() & Qt::TabFocus) == 0 || !each->isVisible() || !each->isEnabled()) continue;
    EXPECT_FALSE(QAccessible::queryAccessibleInterface(each)->text(QAccessible::Name).isEmpty())
        << each->metaObject()->className();
    const bool is_proxied = each->focusProxy() != nullptr;
    EXPECT_TRUE(is_proxied || turns.contains(each)) << each->metaObject()->className();
  }
  EXPECT_TRUE(turns.contains(page()->findChild<QPushButton*>("skip")));
}

TEST_F(StartTest, WhatIsOpenedTakesItsPlace) {
  window_->findChild<QAction*>("add")->trigger();
  EXPECT_FALSE(has_page());
  EXPECT_TRUE(shows_panels());
}

TEST_F(StartTest, ItIsNotShownWithArgumentsNorWithASessionNorUnasked) {
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_Escape);
  window_.reset();
  MainWindow restored(Environment{}, home_.filePath("sessions"));
  restored.start({}, true);
  EXPECT_EQ(restored.findChild<StartPage*>(), nullptr);
  MainWindow given{Environment{}};
  given.start({"--model", "7B"}, true);
  EXPECT_EQ(given.findChild<StartPage*>(), nullptr);
  MainWindow unasked{Environment{}};
  unasked.start({});
  EXPECT_EQ(unasked.findChild<StartPage*>(), nullptr);
}

TEST_F(StartTest, ItComesBackWhereNothingWasAnswered) {
  window_->close();
  window_.reset();
  MainWindow again(Environment{}, home_.filePath("sessions"));
  again.start({}, true);
  EXPECT_NE(again.findChild<StartPage*>(), nullptr);
  again.findChild<StartPage*>()->findChild<QPushButton*>("skip")->click();
  again.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&again));
  for (const QDockWidget* panel : again.findChildren<QDockWidget*>()) EXPECT_TRUE(panel->isVisible());
}

}  // namespace
}  // namespace zplan::gui
