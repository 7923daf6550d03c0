// The window in its second language.

#include <gtest/gtest.h>

#include <QFile>
#include <QLabel>
#include <QMenuBar>
#include <QTabWidget>
#include <QTranslator>

#include "cli/options/options.h"
#include "cli/report/brief.h"
#include "gui/session/words.h"
#include "gui/window/comparison_view.h"
#include "gui/window/main_window.h"
#include "support.h"

namespace zplan::gui {
namespace {

class TranslationTest : public ::testing::Test {
 protected:
  TranslationTest() {
    EXPECT_TRUE(translator_.load(QStringLiteral(":/i18n/zplan_zh_CN.qm")));
    QCoreApplication::installTranslator(&translator_);
  }
  ~TranslationTest() override { QCoreApplication::removeTranslator(&translator_); }

  QTranslator translator_;
};

bool has_chinese(const QString& text) {
  return std::ranges::any_of(text, [](QChar each) { return each.script() == QChar::Script_Han; });
}

TEST_F(TranslationTest, LabelsAndHelpsOfOptionsAreTranslated) {
  const auto is_translated = [](std::string_view text) {
    const std::string english(text);
    return QCoreApplication::translate("zplan::gui::Options", english.c_str()) != qt(english);
  };
  // Names that are the same in both languages.
  const std::vector<std::string> names{"DoRA", "LoRA dropout", "torch.compile"};
  int seen = 0;
  for (const OptionSpec& option : option_table()) {
    if (option.label.empty()) continue;
    EXPECT_TRUE(is_translated(option.help)) << option.name << ": " << option.help;
    EXPECT_TRUE(is_translated(option.group) || option.group == "Output") << option.group;
    const bool is_name = std::ranges::find(names, option.label) != names.end();
    EXPECT_TRUE(is_name || is_translated(option.label)) << option.name << ": " << option.label;
    ++seen;
  }
  EXPECT_GT(seen, 90);
}

TEST_F(TranslationTest, TheWindowSpeaksIt) {
  MainWindow window{Environment{}};
  window.start({});
  window.show();
  ASSERT_TRUE(test::wait_until([&] { return window.session().planning().is_idle(); }));
  QCoreApplication::processEvents();
  for (const QAction* action : window.menuBar()->actions())
    EXPECT_TRUE(has_chinese(action->text())) << action->text().toStdString();
  for (int tab = 0; tab < window.view().charts().count(); ++tab)
    EXPECT_TRUE(has_chinese(window.view().charts().tabText(tab)));
  for (int tab = 0; tab < window.view().tables().count(); ++tab)
    EXPECT_TRUE(has_chinese(window.view().tables().tabText(tab)));
  EXPECT_TRUE(has_chinese(window.findChild<QLabel*>("banner")->text()));
}

TEST_F(TranslationTest, EveryVerdictIsTranslated) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--model", "8B", "--gpus", "5", "--mem", "44"},
           {"--model", "70B", "--gpus", "2", "--mem", "24", "--offload", "none", "--method", "lora"},
           {"--model", "8B", "--gpu", "RTX-4090-24GB", "--offload", "all", "--host-mem", "20"}}) {
    const PlannedPtr planned =
        plan_scenario({.name = "", .arguments = arguments}, Environment{}, Depth::full);
    const Verdict verdict = verdict_of(*planned);
    for (const std::string& each : {verdict.subject, verdict.statement, verdict.alternative})
      for (const char* english : {" of ", "fit", "need", " per ", "step", "fine-tuning"})
        EXPECT_FALSE(qt(each).contains(english)) << each;
    EXPECT_TRUE(has_chinese(qt(verdict.statement))) << verdict.statement;
  }
}

TEST_F(TranslationTest, ThePageOfHelpHasTheHeadingsThatItIsOpenedAt) {
  QFile page(QStringLiteral(":/help/desktop.zh_CN.md"));
  ASSERT_TRUE(page.open(QIODevice::ReadOnly));
  const QString text = QString::fromUtf8(page.readAll());
  for (const char* heading : {"Scenarios", "Options", "Comparison", "Keys"})
    EXPECT_TRUE(text.contains(QStringLiteral("\n## %1\n").arg(MainWindow::tr(heading)))) << heading;
}

TEST_F(TranslationTest, BothPagesOfHelpHaveTheSameSections) {
  const auto sections = [](const QString& name) {
    QFile page(name);
    EXPECT_TRUE(page.open(QIODevice::ReadOnly));
    return QString::fromUtf8(page.readAll()).count(QStringLiteral("\n## "));
  };
  EXPECT_EQ(sections(QStringLiteral(":/help/desktop.md")),
            sections(QStringLiteral(":/help/desktop.zh_CN.md")));
}

}  // namespace
}  // namespace zplan::gui
