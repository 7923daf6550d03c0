#include <gtest/gtest.h>

#include <QSignalSpy>
#include <QTest>

#include "gui/editors/number_editor.h"
#include "gui/editors/simple_editors.h"
#include "tests/gui/support.h"

namespace zplan::gui {
namespace {

QCheckBox* box(const ValueEditor& editor, const QString& word) {
  return editor.findChild<QCheckBox*>(word, Qt::FindDirectChildrenOnly);
}

TEST(ChecksEditors, DefaultsAreHalfTickedUntilOneIsGiven) {
  ChecksEditor editor({"0", "1", "2", "3"}, 4);
  editor.show_default("2,3");
  EXPECT_EQ(box(editor, "2")->checkState(), Qt::PartiallyChecked);
  EXPECT_EQ(box(editor, "0")->checkState(), Qt::Unchecked);
  editor.show_value("0");
  EXPECT_EQ(box(editor, "2")->checkState(), Qt::Unchecked);
  EXPECT_EQ(box(editor, "0")->checkState(), Qt::Checked);
}

TEST(ChecksEditors, TicksBecomeAListInOrder) {
  ChecksEditor editor({"0", "1", "2", "3"}, 4);
  editor.show_default("0,1,2,3");
  QSignalSpy edited(&editor, &ValueEditor::edited);
  QObject::connect(&editor, &ValueEditor::edited, &editor, &ChecksEditor::show_value);
  editor.show();
  QTest::mouseClick(box(editor, "3"), Qt::LeftButton, {}, QPoint(6, box(editor, "3")->height() / 2));
  QTest::keyClick(box(editor, "2"), Qt::Key_Space);
  QTest::keyClick(box(editor, "3"), Qt::Key_Space);
  QTest::keyClick(box(editor, "2"), Qt::Key_Space);
  QStringList values;
  for (const QList<QVariant>& each : edited) values << each.first().toString();
  EXPECT_EQ(values, (QStringList{"3", "2,3", "2", ""}));
  EXPECT_EQ(box(editor, "0")->checkState(), Qt::PartiallyChecked);
}

TEST(ChecksEditors, AWordThatIsNotLegalStaysAndCanBeTakenOut) {
  ChecksEditor editor({"0", "1"}, 4);
  QObject::connect(&editor, &ValueEditor::edited, &editor, &ChecksEditor::show_value);
  editor.show_value("1,7");
  ASSERT_NE(box(editor, "7"), nullptr);
  EXPECT_TRUE(box(editor, "7")->isChecked());
  QSignalSpy edited(&editor, &ValueEditor::edited);
  box(editor, "7")->click();
  EXPECT_EQ(edited.first().first(), "1");
  QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
  EXPECT_EQ(box(editor, "7"), nullptr);
}

TEST(ChoiceEditors, AnUnknownWordIsShownUntilAnotherIsChosen) {
  ChoiceEditor editor({"bf16", "fp16"});
  editor.show_default("bf16");
  const auto* list = qobject_cast<QComboBox*>(editor.inputs().front());
  EXPECT_EQ(list->currentText(), "default (bf16)");
  editor.show_value("fp8");
  EXPECT_EQ(list->currentText(), "fp8");
  editor.show_value("fp16");
  EXPECT_EQ(list->currentText(), "fp16");
  EXPECT_EQ(list->findText("fp8"), -1);
  editor.show_value({});
  EXPECT_EQ(list->currentIndex(), 0);
}

TEST(NumberEditors, TheSliderFollowsTheNumberAndKeepsIt) {
  NumberEditor editor(sequence_stops());
  QSignalSpy edited(&editor, &ValueEditor::edited);
  editor.show_value("5000");
  EXPECT_EQ(editor.slider()->stops()[static_cast<std::size_t>(editor.slider()->value())], 4096);
  EXPECT_EQ(qobject_cast<QLineEdit*>(editor.inputs().front())->text(), "5000");
  EXPECT_EQ(edited.count(), 0);
  editor.show_value({});
  editor.show_default("2048");
  EXPECT_EQ(editor.slider()->stops()[static_cast<std::size_t>(editor.slider()->value())], 2048);
  EXPECT_EQ(edited.count(), 0);
}

TEST(NumberEditors, ArrowKeysGoToTheNextStop) {
  NumberEditor editor(gpu_stops());
  editor.show_value("8");
  QSignalSpy edited(&editor, &ValueEditor::edited);
  QTest::keyClick(editor.inputs().front(), Qt::Key_Up);
  QTest::keyClick(editor.inputs().front(), Qt::Key_Up);
  QTest::keyClick(editor.inputs().front(), Qt::Key_Down);
  QStringList values;
  for (const QList<QVariant>& each : edited) values << each.first().toString();
  EXPECT_EQ(values, (QStringList{"10", "12", "10"}));
}

TEST(NumberEditors, NoStopIsBeyondTheMost) {
  NumberEditor editor(sequence_stops());
  editor.slider()->set_most(5000);
  EXPECT_EQ(editor.slider()->stops(), (std::vector<qint64>{512, 768, 1024, 1536, 2048, 3072, 4096, 5000}));
  editor.slider()->set_most(0);
  EXPECT_EQ(editor.slider()->stops(), sequence_stops());
}

TEST(LogSliderStops, RiseFromEndToEnd) {
  for (const auto& stops : {sequence_stops(), micro_batch_stops(), gpu_stops()}) {
    EXPECT_TRUE(std::ranges::is_sorted(stops));
    EXPECT_EQ(std::ranges::adjacent_find(stops), stops.end());
  }
  EXPECT_EQ(sequence_stops().front(), 512);
  EXPECT_EQ(sequence_stops().back(), 1'048'576);
  EXPECT_EQ(gpu_stops().front(), 1);
  EXPECT_EQ(gpu_stops().back(), 1024);
  EXPECT_EQ(micro_batch_stops().back(), 64);
}

}  // namespace
}  // namespace zplan::gui
