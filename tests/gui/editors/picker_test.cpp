#include "gui/editors/picker.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QDir>
#include <QSignalSpy>
#include <QTest>

#include "tests/gui/support.h"

namespace zplan::gui {
namespace {

QStringList found(const NameFilter& filter) {
  QStringList names;
  for (int row = 0; row < filter.rowCount(); ++row) names << filter.index(row, 0).data().toString();
  return names;
}

TEST(NameTables, AreModelsAsQtHasThem) {
  const QObject owner;
  for (const auto make : {model_names, gpu_names, instance_names, node_names, network_names}) {
    NameTable* table = make(Environment{}, const_cast<QObject*>(&owner));
    const QAbstractItemModelTester tester(table, QAbstractItemModelTester::FailureReportingMode::Fatal);
    NameFilter filter(table);
    const QAbstractItemModelTester filter_tester(&filter,
                                                 QAbstractItemModelTester::FailureReportingMode::Fatal);
    const int all = filter.rowCount();
    EXPECT_EQ(all, table->rowCount());
    EXPECT_GT(all, 3);
    filter.look_for("no such name");
    EXPECT_EQ(filter.rowCount(), 0);
    filter.look_for({});
    EXPECT_EQ(filter.rowCount(), all);
  }
}

TEST(NameTables, EveryNameHasDetails) {
  QObject owner;
  for (const auto make : {model_names, gpu_names, instance_names, node_names, network_names}) {
    const NameTable* table = make(Environment{}, &owner);
    for (int row = 0; row < table->rowCount(); ++row)
      for (int column = 1; column < table->columnCount(); ++column)
        EXPECT_FALSE(table->index(row, column).data().toString().isEmpty())
            << table->index(row, 0).data().toString().toStdString();
  }
}

TEST(NameTables, CardsSayTheirMemory) {
  QObject owner;
  NameFilter filter(gpu_names(Environment{}, &owner));
  filter.look_for("h100 sxm");
  ASSERT_GT(filter.rowCount(), 0);
  EXPECT_TRUE(filter.index(0, 1).data().toString().endsWith("GiB"));
}

TEST(NameTables, TheUsersOwnAreAmongThem) {
  const QTemporaryDir home;
  ASSERT_TRUE(QDir(home.path()).mkpath("zplan/models"));
  test::write(home.filePath("zplan/models/broken.json"), "{");
  test::write(home.filePath("zplan/models/mine.json"), R"({"name": "mine/tiny", "config": {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000,
    "max_position_embeddings": 512, "tie_word_embeddings": false}})");
  Environment environment;
  environment.config_home = home.path().toStdString();
  QObject owner;
  NameFilter filter(model_names(environment, &owner));
  filter.look_for("tiny mine");
  EXPECT_EQ(found(filter), QStringList{"mine/tiny"});
  EXPECT_EQ(filter.index(0, 3).data(), "2");
}

TEST(NameFilters, WordsAreFoundInAnyOrderAndSpelling) {
  QObject owner;
  NameFilter filter(model_names(Environment{}, &owner));
  filter.look_for("llama 3");
  EXPECT_TRUE(found(filter).contains("meta-llama/Meta-Llama-3-8B")) << found(filter).join(' ').toStdString();
  EXPECT_TRUE(found(filter).front().contains("Llama-3.", Qt::CaseInsensitive));  // not llama-30b
  const QStringList one = found(filter);
  filter.look_for("3 LLAMA");
  EXPECT_EQ(QSet<QString>(one.begin(), one.end()).size(), filter.rowCount());
  filter.look_for("qwen3-8b");
  EXPECT_EQ(found(filter).front(), "Qwen/Qwen3-8B");
}

class PickerTest : public ::testing::Test {
 protected:
  PickerTest() : picker_(gpu_names(Environment{}, &owner_), {}) {
    picker_.show();
    picker_.activateWindow();
    EXPECT_TRUE(QTest::qWaitForWindowActive(&picker_));
    edit()->setFocus();
  }
  [[nodiscard]] QLineEdit* edit() const { return qobject_cast<QLineEdit*>(picker_.inputs().front()); }
  [[nodiscard]] QAbstractItemView* popup() const { return edit()->completer()->popup(); }

  QObject owner_;
  Picker picker_;
};

TEST_F(PickerTest, TypingNarrowsTheTableAndEnterTakesARow) {
  QSignalSpy edited(&picker_, &ValueEditor::edited);
  QTest::keyClicks(edit(), "h100");
  ASSERT_TRUE(popup()->isVisible());
  EXPECT_EQ(edited.count(), 4);
  EXPECT_LT(picker_.filter()->rowCount(), 10);
  const QString first = picker_.filter()->index(0, 0).data().toString();
  QTest::keyClick(popup(), Qt::Key_Down);
  QTest::keyClick(popup(), Qt::Key_Return);
  EXPECT_FALSE(popup()->isVisible());
  EXPECT_EQ(edit()->text(), first);
  EXPECT_EQ(edited.last().first().toString(), first);
}

TEST_F(PickerTest, DownShowsAllNames) {
  picker_.show_value("H100-SXM-80GB");
  QTest::keyClick(edit(), Qt::Key_Down);
  ASSERT_TRUE(popup()->isVisible());
  EXPECT_EQ(picker_.filter()->rowCount(), picker_.filter()->sourceModel()->rowCount());
  EXPECT_GE(popup()->width(), picker_.width());
  QTest::keyClick(popup(), Qt::Key_Escape);
  EXPECT_EQ(edit()->text(), "H100-SXM-80GB");
}

TEST_F(PickerTest, ValuesFromOutsideAreNoEdits) {
  QSignalSpy edited(&picker_, &ValueEditor::edited);
  picker_.show_value("A100-SXM-80GB");
  EXPECT_EQ(edit()->text(), "A100-SXM-80GB");
  EXPECT_EQ(edited.count(), 0);
  EXPECT_FALSE(popup()->isVisible());
}

}  // namespace
}  // namespace zplan::gui
