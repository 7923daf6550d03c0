#include "gui/editors/editor_panel.h"

#include <gtest/gtest.h>

#include <QAbstractItemView>
#include <QCheckBox>
#include <QScrollBar>
#include <QShortcut>
#include <QSignalSpy>
#include <QStyleOptionSlider>
#include <QTest>
#include <QWheelEvent>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/options/command_line.h"
#include "cli/options/help.h"
#include "cli/report/report.h"
#include "gui/editors/number_editor.h"
#include "gui/editors/picker.h"
#include "tests/gui/support.h"

namespace zplan::gui {
namespace {

using test::wait_until;

class EditorPanelTest : public ::testing::Test {
 protected:
  EditorPanelTest() {
    session_.add({.name = "8B on 5", .arguments = {"--model", "8B", "--gpus", "5", "--mem", "44"}});
    panel_.resize(380, 900);
    panel_.show();
    panel_.activateWindow();
    EXPECT_TRUE(QTest::qWaitForWindowActive(&panel_));
  }
  [[nodiscard]] bool settled() {
    return wait_until([this] { return session_.planning().is_idle(); });
  }
  template <class Input = QLineEdit>
  [[nodiscard]] Input* input(const QString& option) const {
    return qobject_cast<Input*>(panel_.field(option)->editor()->inputs().front());
  }
  [[nodiscard]] LogSlider* slider(const QString& option) const {
    return qobject_cast<NumberEditor*>(panel_.field(option)->editor())->slider();
  }
  [[nodiscard]] std::optional<std::string> given(const QString& option, int row = -1) const {
    return given_value(session_.at(row < 0 ? session_.current() : row).scenario.arguments,
                       option.toStdString());
  }
  [[nodiscard]] bool is_shown(const char* option) const { return panel_.field(option)->isVisible(); }
  [[nodiscard]] std::ptrdiff_t shown() const {
    return std::ranges::count_if(panel_.fields(), &OptionField::isVisible);
  }
  /// Replaces what stands in the field as a person would.
  void type(const QString& option, const QString& text) const {
    QLineEdit* edit = input(option);
    edit->setFocus();
    edit->selectAll();
    if (text.isEmpty()) QTest::keyClick(edit, Qt::Key_Delete);
    QTest::keyClicks(edit, text);
  }

  Session session_{Environment{}};
  EditorPanel panel_{session_};
};

TEST_F(EditorPanelTest, EveryOptionThatChangesAPlanHasOneEditorWithAName) {
  std::size_t wanted = 0;
  for (const OptionSpec& spec : option_table()) {
    const std::string name(spec.name);
    if (spec.label.empty()) {
      EXPECT_EQ(panel_.field(QString::fromStdString(name)), nullptr) << name;
      continue;
    }
    ++wanted;
    EXPECT_EQ(panel_.findChildren<OptionField*>(QString::fromStdString(name)).size(), 1) << name;
    const OptionField* field = panel_.field(QString::fromStdString(name));
    ASSERT_NE(field, nullptr) << name;
    for (const QWidget* each : field->editor()->inputs())
      EXPECT_FALSE(each->accessibleName().isEmpty()) << name;
    EXPECT_TRUE(field->toolTip().contains(QString::fromStdString(name)));
  }
  EXPECT_EQ(panel_.fields().size(), wanted);
}

TEST_F(EditorPanelTest, WhatIsTypedIsAnswered) {
  type("--seq", "4096");
  EXPECT_EQ(given("--seq"), "4096");
  ASSERT_TRUE(settled());
  EXPECT_EQ(session_.at(0).planned->question.training.sequence_length, 4096);
  EXPECT_EQ(session_.undo_stack().count(), 2);
}

TEST_F(EditorPanelTest, WhatIsWrongIsExplainedAndKept) {
  type("--gpus", "many");
  ASSERT_TRUE(settled());
  EXPECT_EQ(input("--gpus")->text(), "many");
  EXPECT_EQ(given("--gpus"), "many");
  const MessageLine* message = panel_.field("--gpus")->message();
  EXPECT_TRUE(message->isVisible());
  EXPECT_TRUE(message->text().contains("\"many\"")) << message->text().toStdString();
  EXPECT_TRUE(input("--gpus")->accessibleDescription().contains("\"many\""));
  EXPECT_FALSE(panel_.field("--seq")->message()->isVisible());
  type("--gpus", "4");
  ASSERT_TRUE(settled());
  EXPECT_FALSE(message->isVisible());
}

TEST_F(EditorPanelTest, AProblemOfTwoOptionsStandsAtBoth) {
  session_.set_arguments(0, {"--model", "8B", "--seq", "16000000", "--micro-batch", "60000"});
  ASSERT_TRUE(settled());
  ASSERT_TRUE(session_.at(0).problem);
  EXPECT_TRUE(panel_.field("--seq")->message()->isVisible());
  EXPECT_TRUE(panel_.field("--micro-batch")->message()->isVisible());
}

TEST_F(EditorPanelTest, AProblemOfNoOptionStandsAbove) {
  session_.set_arguments(0, {"--model", "8B", "--json"});
  ASSERT_TRUE(settled());
  const auto messages = panel_.findChildren<MessageLine*>(QString(), Qt::FindDirectChildrenOnly);
  ASSERT_EQ(messages.size(), 1);
  EXPECT_TRUE(messages.first()->isVisible());
  EXPECT_TRUE(messages.first()->text().contains("--json"));
}

TEST_F(EditorPanelTest, AnEmptyFieldTakesTheOptionOut) {
  type("--mem", "");
  EXPECT_FALSE(given("--mem"));
  ASSERT_TRUE(settled());
  EXPECT_EQ(input("--mem")->text(), "");
  EXPECT_EQ(input("--mem")->placeholderText(), "24.0");  // the generic GPU's
}

TEST_F(EditorPanelTest, ResetTakesTheOptionOutInEitherSpelling) {
  session_.set_arguments(0, {"--model", "8B", "--gpus=5"});
  OptionField* field = panel_.field("--gpus");
  EXPECT_EQ(input("--gpus")->text(), "5");
  ASSERT_TRUE(field->reset_button()->isVisible());
  QTest::mouseClick(field->reset_button(), Qt::LeftButton);
  EXPECT_FALSE(given("--gpus"));
  EXPECT_FALSE(field->reset_button()->isVisible());
  EXPECT_FALSE(field->is_given());
}

TEST_F(EditorPanelTest, UndoShowsWhatWas) {
  type("--seq", "4096");
  type("--gpus", "8");
  session_.undo_stack().undo();
  EXPECT_EQ(input("--gpus")->text(), "5");
  EXPECT_EQ(input("--seq")->text(), "4096");
  session_.undo_stack().undo();
  EXPECT_EQ(input("--seq")->text(), "");
  EXPECT_EQ(session_.undo_stack().index(), 1);
  session_.undo_stack().redo();
  EXPECT_EQ(input("--seq")->text(), "4096");
}

TEST_F(EditorPanelTest, WhatIsTypedAfterAnUndoIsAStepOfItsOwn) {
  type("--seq", "4096");
  type("--seq", "8192");
  EXPECT_EQ(session_.undo_stack().count(), 2);  // the focus never left
  type("--gpus", "6");
  session_.undo_stack().undo();
  input("--seq")->setFocus();
  QTest::keyClicks(input("--seq"), "0");
  EXPECT_EQ(session_.undo_stack().count(), 3);
  session_.undo_stack().undo();
  EXPECT_EQ(input("--seq")->text(), "8192");
}

TEST_F(EditorPanelTest, UndoInAFieldIsTheSessions) {
  const QShortcut undo(QKeySequence::Undo, &panel_, &session_.undo_stack(), &QUndoStack::undo);
  type("--seq", "4096");
  QTest::keySequence(input("--seq"), QKeySequence::Undo);
  EXPECT_EQ(input("--seq")->text(), "");
  EXPECT_FALSE(given("--seq"));
  EXPECT_EQ(session_.undo_stack().index(), 1);
}

TEST_F(EditorPanelTest, TheCursorStaysWhereItIsWhenAnswersCome) {
  type("--mem", "4480");
  QTest::keyClick(input("--mem"), Qt::Key_Left);
  QTest::keyClick(input("--mem"), Qt::Key_Left);
  QTest::keyClick(input("--mem"), Qt::Key_Backspace);
  ASSERT_TRUE(settled());
  EXPECT_EQ(input("--mem")->text(), "480");
  EXPECT_EQ(input("--mem")->cursorPosition(), 1);
}

TEST_F(EditorPanelTest, ADragIsOneStepAndItsEndIsAnswered) {
  LogSlider* seq = slider("--seq");
  const int steps = session_.undo_stack().count();
  const auto drag = [seq](int moves) {
    seq->setSliderDown(true);
    for (int move = 1; move <= moves; ++move) seq->setSliderPosition(move % 9 + 1);
    seq->setSliderDown(false);
  };
  drag(200);
  EXPECT_EQ(session_.undo_stack().count(), steps + 1);
  const qint64 last = seq->stops()[200 % 9 + 1];
  EXPECT_EQ(given("--seq"), std::to_string(last));
  EXPECT_EQ(input("--seq")->text(), QString::number(last));
  ASSERT_TRUE(settled());
  EXPECT_EQ(session_.at(0).planned->question.training.sequence_length, last);
  EXPECT_FALSE(session_.at(0).planned->draft);
  drag(5);
  EXPECT_EQ(session_.undo_stack().count(), steps + 2);
  session_.undo_stack().undo();
  EXPECT_EQ(given("--seq"), std::to_string(last));
  EXPECT_EQ(seq->value(), 200 % 9 + 1);
}

TEST_F(EditorPanelTest, TheMouseDragsTheSlider) {
  slider("--gpus")->parentWidget()->window()->repaint();
  LogSlider* gpus = slider("--gpus");
  QStyleOptionSlider option;
  option.initFrom(gpus);
  option.minimum = gpus->minimum();
  option.maximum = gpus->maximum();
  option.sliderPosition = option.sliderValue = gpus->value();
  const QPoint handle =
      gpus->style()->subControlRect(QStyle::CC_Slider, &option, QStyle::SC_SliderHandle, gpus).center();
  const int steps = session_.undo_stack().count();
  QTest::mousePress(gpus, Qt::LeftButton, {}, handle);
  for (int x = handle.x(); x < gpus->width(); x += 4) QTest::mouseMove(gpus, QPoint(x, handle.y()));
  QTest::mouseRelease(gpus, Qt::LeftButton, {}, QPoint(gpus->width() + 20, handle.y()));
  EXPECT_EQ(given("--gpus"), "1024");
  EXPECT_EQ(session_.undo_stack().count(), steps + 1);
}

TEST_F(EditorPanelTest, TheSliderEndsWhereTheModelDoes) {
  session_.set_arguments(0, {"--model", "gpt2"});
  ASSERT_TRUE(settled());
  EXPECT_EQ(slider("--seq")->stops().back(), 1024);
  EXPECT_EQ(input("--seq")->placeholderText(), "1024");
}

TEST_F(EditorPanelTest, AChoiceIsMadeAndTakenBack) {
  auto* method = input<QComboBox>("--method");
  ASSERT_TRUE(settled());
  EXPECT_EQ(method->currentText(), "default (full)");
  method->setFocus();
  QTest::keyClick(method, Qt::Key_Down);
  QTest::keyClick(method, Qt::Key_Down);
  EXPECT_EQ(given("--method"), "lora");
  QTest::keyClick(method, Qt::Key_Home);
  EXPECT_FALSE(given("--method"));
  auto* fused = input<QCheckBox>("--fused-loss");
  QTest::keyClick(fused, Qt::Key_Space);
  EXPECT_TRUE(given("--fused-loss"));
  ASSERT_TRUE(settled());
  EXPECT_TRUE(session_.at(0).planned->question.training.fused_loss);
  QTest::keyClick(fused, Qt::Key_Space);
  EXPECT_FALSE(given("--fused-loss"));
}

TEST_F(EditorPanelTest, WhatCanDoNothingIsGreyUnlessItIsGiven) {
  EXPECT_FALSE(input("--lora-rank")->isEnabled());
  EXPECT_FALSE(panel_.field("--lora-rank")->message()->text().isEmpty());
  session_.set_arguments(0, {"--model", "8B", "--lora-rank", "8"});
  EXPECT_TRUE(input("--lora-rank")->isEnabled());
  session_.set_arguments(0, {"--model", "8B", "--method", "lora"});
  EXPECT_TRUE(input("--lora-rank")->isEnabled());
  EXPECT_TRUE(panel_.field("--lora-rank")->message()->text().isEmpty());
  EXPECT_FALSE(input<QComboBox>("--quantization")->isEnabled());
}

TEST_F(EditorPanelTest, CommonOptionsThatApplyAreShownFirst) {
  EXPECT_EQ(panel_.page(), EditorPanel::Page::common);
  EXPECT_TRUE(is_shown("--method"));
  EXPECT_FALSE(is_shown("--lora-rank")) << "does nothing with --method full";
  EXPECT_FALSE(is_shown("--lora-dropout")) << "few people use it";
  EXPECT_LT(shown(), 32);
  session_.set_arguments(0, {"--model", "8B", "--method", "lora"});
  EXPECT_TRUE(is_shown("--lora-rank"));
  EXPECT_FALSE(is_shown("--lora-dropout"));
  for (const OptionField* field : panel_.fields())
    EXPECT_EQ(field->isVisible(), is_common(field->spec()) && !field->is_idle())
        << field->option().toStdString();
}

TEST_F(EditorPanelTest, AllOptionsStandOnAPageOfTheirOwn) {
  auto* pages = panel_.findChild<QTabBar*>("pages");
  pages->setFocus();
  QTest::keyClick(pages, Qt::Key_Right);
  QTest::keyClick(pages, Qt::Key_Right);
  EXPECT_EQ(panel_.page(), EditorPanel::Page::all);
  EXPECT_EQ(shown(), static_cast<std::ptrdiff_t>(panel_.fields().size()));
  EXPECT_FALSE(input("--lora-rank")->isEnabled());
  EXPECT_TRUE(panel_.field("--lora-rank")->message()->text().contains("Method"));
}

TEST_F(EditorPanelTest, WhatIsSetIsShownThoughItIsRareOrDoesNotApply) {
  session_.set_arguments(0,
                         {"--model", "8B", "--lora-rank", "8", "--optimizer", "adamw", "--image-size", "9"});
  ASSERT_TRUE(settled());
  ASSERT_TRUE(session_.at(0).problem) << "an option that does nothing is an error";
  EXPECT_TRUE(is_shown("--lora-rank"));
  EXPECT_TRUE(is_shown("--image-size"));
  EXPECT_TRUE(panel_.field("--lora-rank")->is_given());
  QTest::mouseClick(panel_.field("--lora-rank")->reset_button(), Qt::LeftButton);
  EXPECT_FALSE(given("--lora-rank"));
  input("--model")->setFocus();
  EXPECT_FALSE(is_shown("--lora-rank")) << "it is not set any more";
}

TEST_F(EditorPanelTest, ASearchFindsOptionsThatAreHidden) {
  auto* find = panel_.findChild<QLineEdit*>("find");
  QTest::keyClicks(find, "lora dropout");
  EXPECT_TRUE(is_shown("--lora-dropout"));
  EXPECT_FALSE(input("--lora-dropout")->isEnabled());
  EXPECT_TRUE(panel_.field("--lora-dropout")->message()->isVisible()) << "with which options it would count";
  find->clear();
  EXPECT_FALSE(is_shown("--lora-dropout"));
}

TEST_F(EditorPanelTest, AModelIsSearchedAndTaken) {
  type("--model", "qwen3 8b");
  const QAbstractItemView* popup = input("--model")->completer()->popup();
  ASSERT_TRUE(popup->isVisible());
  QTest::keyClick(input("--model")->completer()->popup(), Qt::Key_Down);
  QTest::keyClick(input("--model")->completer()->popup(), Qt::Key_Return);
  EXPECT_EQ(given("--model"), "Qwen/Qwen3-8B");
  ASSERT_TRUE(settled());
  EXPECT_EQ(session_.at(0).planned->question.model.name, "Qwen/Qwen3-8B");
}

TEST_F(EditorPanelTest, AFileIsTakenAsTheModel) {
  type("--model", "/no/such/config.json");
  ASSERT_TRUE(settled());
  EXPECT_TRUE(panel_.field("--model")->message()->isVisible());
}

TEST_F(EditorPanelTest, AProblemOfAFileStandsAtTheOptionThatNamesIt) {
  const QTemporaryDir folder;
  const QString file = test::write(folder.filePath("ds.json"), R"({"zero_optimization": {"stage": "x"}})");
  type("--ds-config", file);
  ASSERT_TRUE(settled());
  ASSERT_TRUE(session_.at(0).problem);
  EXPECT_TRUE(panel_.field("--ds-config")->message()->isVisible())
      << session_.at(0).problem->place.toStdString();
}

TEST_F(EditorPanelTest, AnotherScenarioIsShownAndNotChanged) {
  session_.add({.name = "70B", .arguments = {"--model", "70B", "--gpus", "16", "--nodes", "2"}});
  EXPECT_EQ(input("--gpus")->text(), "16");
  EXPECT_EQ(input("--mem")->text(), "");
  type("--seq", "1024");
  session_.set_current(0);
  EXPECT_EQ(input("--gpus")->text(), "5");
  EXPECT_EQ(input("--seq")->text(), "");
  EXPECT_EQ(given("--seq", 1), "1024");
  EXPECT_FALSE(given("--seq", 0));
  EXPECT_EQ(session_.undo_stack().count(), 3);
}

TEST_F(EditorPanelTest, WithoutAScenarioNothingIsEdited) {
  session_.remove(0);
  EXPECT_FALSE(input("--gpus")->isEnabled());
  EXPECT_EQ(input("--gpus")->text(), "");
  EXPECT_FALSE(panel_.findChild<QLineEdit*>("name")->isEnabled());
  session_.undo_stack().undo();
  EXPECT_TRUE(input("--gpus")->isEnabled());
}

TEST_F(EditorPanelTest, ASavedReportIsShownAsItWas) {
  ASSERT_TRUE(settled());
  const QTemporaryDir folder;
  const QString file =
      test::write(folder.filePath("report.json"),
                  QByteArray::fromStdString(report_json(report_of(*session_.at(0).planned)).dump()));
  session_.add({.name = "saved", .arguments = {}, .report = file.toStdString()});
  ASSERT_TRUE(settled());
  EXPECT_FALSE(session_.at(1).problem);
  EXPECT_FALSE(input("--gpus")->isEnabled());
  const auto messages = panel_.findChildren<MessageLine*>(QString(), Qt::FindDirectChildrenOnly);
  EXPECT_TRUE(messages.first()->isVisible());
  EXPECT_TRUE(messages.first()->text().contains(file));
  session_.set_current(0);
  EXPECT_FALSE(messages.first()->isVisible());
  EXPECT_TRUE(input("--gpus")->isEnabled());
}

TEST_F(EditorPanelTest, AScenarioIsRenamed) {
  auto* name = panel_.findChild<QLineEdit*>("name");
  name->setFocus();
  name->selectAll();
  QTest::keyClicks(name, "first");
  EXPECT_EQ(session_.at(0).scenario.name, "8B on 5");
  QTest::keyClick(name, Qt::Key_Return);
  EXPECT_EQ(session_.at(0).scenario.name, "first");
  name->selectAll();
  QTest::keyClick(name, Qt::Key_Delete);
  QTest::keyClick(name, Qt::Key_Return);
  EXPECT_EQ(session_.at(0).scenario.name, "first");
  EXPECT_EQ(name->text(), "first");
}

TEST_F(EditorPanelTest, ANameThatIsBeingTypedIsNotLostWhenAnotherScenarioIsChosen) {
  session_.add({.name = "second", .arguments = {"--model", "8B"}});
  auto* name = panel_.findChild<QLineEdit*>("name");
  name->setFocus();
  name->selectAll();
  QTest::keyClicks(name, "2nd");
  session_.set_current(0);
  EXPECT_EQ(name->text(), "8B on 5");
  QCoreApplication::processEvents();
  EXPECT_EQ(session_.at(1).scenario.name, "2nd");
  EXPECT_EQ(name->text(), "8B on 5");
}

TEST_F(EditorPanelTest, AStrategyIsChosen) {
  ASSERT_TRUE(settled());
  auto* strategy = panel_.findChild<QComboBox*>("strategy");
  EXPECT_EQ(strategy->count(), static_cast<int>(session_.at(0).planned->answer.plans.size()) + 1);
  EXPECT_TRUE(strategy->currentText().contains("zero3"));
  strategy->setFocus();
  QTest::keyClick(strategy, Qt::Key_End);
  const std::string last = session_.at(0).planned->answer.plans.back().id();
  EXPECT_EQ(session_.at(0).scenario.strategy, last);
  ASSERT_TRUE(settled());
  EXPECT_EQ(session_.at(0).planned->plan().id(), last);
  session_.undo_stack().undo();
  EXPECT_EQ(strategy->currentIndex(), 0);
}

TEST_F(EditorPanelTest, OptionsAreFoundByNameAndHelp) {
  auto* find = panel_.findChild<QLineEdit*>("find");
  QTest::keyClicks(find, "tokens per");
  EXPECT_TRUE(panel_.field("--seq")->isVisible());
  EXPECT_FALSE(panel_.field("--gpus")->isVisible());
  find->clear();
  EXPECT_TRUE(panel_.field("--gpus")->isVisible());
  QTest::keyClicks(find, "zzz");
  EXPECT_TRUE(std::ranges::none_of(panel_.fields(), &OptionField::isVisible));
}

TEST_F(EditorPanelTest, OnlyGivenOptionsAreShownOnDemand) {
  panel_.set_page(EditorPanel::Page::given);
  EXPECT_EQ(shown(), 3);
  EXPECT_EQ(panel_.findChild<QTabBar*>("pages")->tabText(1), "Set (3)");
  type("--mem", "");
  EXPECT_TRUE(panel_.field("--mem")->isVisible());  // it is still being typed in
  input("--gpus")->setFocus();
  EXPECT_FALSE(panel_.field("--mem")->isVisible());
  session_.undo_stack().undo();
  EXPECT_TRUE(panel_.field("--mem")->isVisible());
}

TEST_F(EditorPanelTest, AnOptionIsShownWhereverItIsHidden) {
  panel_.findChild<QLineEdit*>("find")->setText("zzz");
  panel_.show_option("--config-style");
  EXPECT_TRUE(panel_.field("--config-style")->isVisible());
  EXPECT_TRUE(input<QWidget>("--config-style")->hasFocus());
}

TEST_F(EditorPanelTest, TabGoesThroughAllEditorsFromTopToBottom) {
  session_.set_arguments(0, {"--model", "8B", "--method", "qlora"});
  std::vector<const QWidget*> order;
  const QWidget* first = panel_.findChild<QLineEdit*>("name");
  const QWidget* at = first;
  do {
    order.push_back(at);
    at = at->nextInFocusChain();
  } while (at != first && order.size() < 5000);
  auto before = order.begin();
  for (const OptionField* field : panel_.fields())
    for (const QWidget* each : field->editor()->inputs()) {
      const auto place = std::find(order.begin(), order.end(), each);
      ASSERT_NE(place, order.end()) << field->option().toStdString();
      EXPECT_GT(place, before) << field->option().toStdString();
      EXPECT_NE(each->focusPolicy() & Qt::TabFocus, 0) << field->option().toStdString();
      before = place;
    }
}

TEST_F(EditorPanelTest, TheWheelScrollsThePanelAndChangesNothing) {
  ASSERT_TRUE(settled());
  auto* scroll = panel_.findChild<QScrollArea*>();
  panel_.resize(380, 300);
  ASSERT_TRUE(wait_until([scroll] { return scroll->verticalScrollBar()->maximum() > 0; }));
  input("--model")->setFocus();
  const std::vector<std::string> before = session_.at(0).scenario.arguments;
  const std::vector<QWidget*> inputs{input<QComboBox>("--method"), slider("--gpus"),
                                     panel_.findChild<QComboBox*>("strategy")};
  for (QWidget* each : inputs) {
    const QPointF middle = QRectF(each->rect()).center();
    QWheelEvent wheel(middle, each->mapToGlobal(middle), {}, QPoint(0, -120), Qt::NoButton, Qt::NoModifier,
                      Qt::NoScrollPhase, false);
    const int scrolled = scroll->verticalScrollBar()->value();
    QSpontaneKeyEvent::setSpontaneous(&wheel);  // as a mouse's: others do not go on to the parent
    qApp->notify(each, &wheel);
    EXPECT_EQ(scroll->verticalScrollBar()->value() > scrolled, scroll->isAncestorOf(each));
  }
  EXPECT_EQ(session_.at(0).scenario.arguments, before);
  EXPECT_EQ(session_.at(0).scenario.strategy, "");
}

TEST_F(EditorPanelTest, NothingIsClippedInEitherPalette) {
  panel_.set_page(EditorPanel::Page::all);
  session_.set_arguments(0, {"--model", "8B", "--gpus", "many", "--method", "lora", "--zero", "2,3"});
  ASSERT_TRUE(settled());
  std::vector<QImage> pictures;
  for (const QPalette& palette : {test::light_palette(), test::dark_palette()}) {
    const test::WithPalette with(palette);
    panel_.resize(380, 900);
    QCoreApplication::processEvents();
    const auto* scroll = panel_.findChild<QScrollArea*>();
    EXPECT_LE(scroll->widget()->minimumSizeHint().width(), scroll->viewport()->width());
    for (const OptionField* field : panel_.fields())
      for (const QWidget* each : field->editor()->inputs())
        EXPECT_GE(each->width(), each->minimumSizeHint().width()) << field->option().toStdString();
    const auto* line = panel_.field("--gpus")->message();
    EXPECT_TRUE(wait_until([line] { return line->height() >= line->heightForWidth(line->width()); }));
    pictures.push_back(panel_.grab().toImage());
    if (qEnvironmentVariableIsSet("ZPLAN_TEST_PICTURES")) {
      const QString file = qEnvironmentVariable("ZPLAN_TEST_PICTURES") + "/editors-%1-%2.png";
      pictures.back().save(file.arg(pictures.size()).arg(1));
      scroll->verticalScrollBar()->setValue(scroll->verticalScrollBar()->maximum());
      panel_.grab().save(file.arg(pictures.size()).arg(2));
      scroll->verticalScrollBar()->setValue(0);
    }
  }
  EXPECT_NE(pictures[0], pictures[1]);
}

}  // namespace
}  // namespace zplan::gui
