#include "gui/output/config_preview.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QFile>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QTableView>
#include <QTextBlock>
#include <QTextLayout>

#include "cli/report/report.h"
#include "support.h"

namespace zplan::gui {
namespace {

using test::planned;
using test::printed;
using test::readme;

Scenario with(std::vector<std::string> more) {
  Scenario scenario = readme();
  scenario.arguments.insert(scenario.arguments.end(), more.begin(), more.end());
  return scenario;
}

TEST(ConfigPreviewContent, TheTextIsWhatEmitWrites) {
  for (const Scenario& each : {readme(), with({"--config-style", "hf-auto"}),
                               with({"--config-style", "ms-swift"}), with({"--framework", "fsdp"})})
    EXPECT_EQ(config_of(*planned(each)).text.toStdString(), printed(each.arguments, {"--emit", "-"}))
        << each.arguments.back();
}

TEST(ConfigPreviewContent, CommandsAndNotesAreTheCommandLines) {
  const Planned& plan = *planned();
  const ConfigContent content = config_of(plan);
  EXPECT_EQ(content.file, "ds_config.json");
  ASSERT_FALSE(content.commands.empty());
  const Json lines = launch_json(plan.plan(), report_of(plan));
  for (const ConfigContent::Command& each : content.commands)
    EXPECT_EQ(lines[each.launcher.toStdString()], each.line.toStdString());
  EXPECT_EQ(static_cast<std::size_t>(content.notes.size()),
            config_notes(plan.plan(), report_of(plan)).size());
  EXPECT_TRUE(content.linted);
  EXPECT_TRUE(content.findings.empty()) << "zplan's own configs are clean";
}

TEST(ConfigPreviewContent, WhereThereIsNoneItSaysWhy) {
  const ConfigContent ddp = config_of(
      *planned({.name = "ddp",
                .arguments = {"--model", "0.5B", "--gpus", "2", "--mem", "80", "--framework", "torch"}}));
  EXPECT_TRUE(ddp.text.isEmpty());
  EXPECT_TRUE(ddp.none.contains("plain PyTorch"));
  const QTemporaryDir folder;
  EXPECT_TRUE(config_of(*plan_scenario(test::saved(folder.path()), Environment{}, Depth::full))
                  .none.contains("saved"));
}

TEST(ConfigPreviewContent, FindingsHaveLevelPlaceAndAdvice) {
  // Without the HF Trainer nothing replaces the values "auto".
  const std::string text = config_of(*planned(with({"--config-style", "hf-auto"}))).text.toStdString();
  const std::vector<Finding> findings = lint(text, "ds_config.json", {.style = ConfigStyle::plain});
  ASSERT_FALSE(findings.empty());
  TextTableModel model;
  const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
  model.show(findings_table(findings));
  ASSERT_EQ(model.rowCount(), static_cast<int>(findings.size()));
  EXPECT_EQ(model.index(0, 0).data(), QString::fromStdString(std::string(to_name(findings[0].severity))));
  EXPECT_EQ(model.index(0, 1).data().toInt(), findings[0].place.line);
  EXPECT_EQ(model.index(0, 2).data(), QString::fromStdString(findings[0].pointer));
  EXPECT_TRUE(model.index(0, 3).data().toString().contains(QString::fromStdString(findings[0].effect)));
}

class ConfigPreviewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    preview_.resize(700, 560);
    preview_.show();
    preview_.show_plan(planned());
  }
  ConfigPreview preview_;
};

TEST_F(ConfigPreviewTest, NothingIsMadeWhereItCannotBeSeen) {
  preview_.hide();
  preview_.show_plan(planned(with({"--framework", "fsdp"})));
  EXPECT_EQ(preview_.content().file, "ds_config.json");
  preview_.show();
  EXPECT_EQ(preview_.content().file, "fsdp.yaml");
  preview_.show_plan(nullptr);
  EXPECT_TRUE(preview_.content().text.isEmpty());
}

TEST_F(ConfigPreviewTest, ItIsSavedAndCopiedAsItIs) {
  const QTemporaryDir folder;
  QString path = folder.filePath("ds_config.json");
  preview_.ask_file = [&path] { return path; };
  QSignalSpy said(&preview_, &ConfigPreview::said);
  preview_.save();
  QFile file(path);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_EQ(file.readAll().toStdString(), printed(readme().arguments, {"--emit", "-"}));
  preview_.copy();
  EXPECT_EQ(QApplication::clipboard()->text(), preview_.content().text);
  path = folder.filePath("none/ds_config.json");
  preview_.save();
  path.clear();
  preview_.save();
  ASSERT_EQ(said.count(), 3);
  EXPECT_TRUE(said[2][0].toString().contains("none/ds_config.json"));
}

TEST_F(ConfigPreviewTest, AStyleIsAskedForWhenAPersonChoosesIt) {
  QSignalSpy wanted(&preview_, &ConfigPreview::style_wanted);
  auto* style = preview_.findChild<QComboBox*>();
  preview_.show_plan(planned(with({"--config-style", "hf-auto"})));
  EXPECT_EQ(style->currentText(), "hf-auto");
  EXPECT_EQ(wanted.count(), 0);
  style->setFocus();
  QKeyEvent up(QEvent::KeyPress, Qt::Key_Up, Qt::NoModifier);
  QApplication::sendEvent(style, &up);
  ASSERT_EQ(wanted.count(), 1);
  EXPECT_EQ(wanted[0][0], "plain");
}

TEST_F(ConfigPreviewTest, TextCanBeSelectedButNotChanged) {
  const auto* text = preview_.findChild<QPlainTextEdit*>();
  EXPECT_TRUE(text->isReadOnly());
  EXPECT_TRUE(text->textInteractionFlags() & Qt::TextSelectableByKeyboard);
  EXPECT_FALSE(text->accessibleName().isEmpty());
  for (const QTableView* each : preview_.findChildren<QTableView*>())
    EXPECT_FALSE(each->accessibleName().isEmpty());
}

/// Returns the contrast ratio of WCAG; text needs 4.5.
double contrast(const QColor& a, const QColor& b) {
  const auto luminance = [](const QColor& color) {
    const auto linear = [](double value) {
      return value <= 0.03928 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
  };
  const double first = luminance(a), second = luminance(b);
  return (std::max(first, second) + 0.05) / (std::min(first, second) + 0.05);
}

TEST_F(ConfigPreviewTest, ColoursCanBeReadInBothPalettes) {
  for (const bool dark : {false, true}) {
    const test::WithPalette palette(dark ? test::dark_palette() : test::light_palette());
    QApplication::processEvents();
    const auto* text = preview_.findChild<QPlainTextEdit*>();
    const QColor ground = text->palette().color(QPalette::Base);
    int coloured = 0;
    for (QTextBlock block = text->document()->begin(); block.isValid(); block = block.next())
      for (const QTextLayout::FormatRange& range : block.layout()->formats()) {
        ++coloured;
        EXPECT_GE(contrast(range.format.foreground().color(), ground), 4.5);
      }
    EXPECT_GT(coloured, 20);
    test::keep_picture(preview_, dark ? "config-dark" : "config-light");
  }
}

}  // namespace
}  // namespace zplan::gui
