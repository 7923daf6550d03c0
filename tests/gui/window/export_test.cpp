// The window's output: files, the clipboard, paper.

#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QImage>
#include <QPrinter>
#include <QTemporaryDir>
#include <QXmlStreamReader>

#include "cli/run.h"
#include "window_support.h"

namespace zplan::gui {
namespace {

class ExportTest : public WindowTest {
 protected:
  /// The file that an action wrote under this name.
  QByteArray exported(const char* action, const QString& name) {
    const QString path = folder_.filePath(name);
    window_.dialogs.file_to_write = [path](const QString&, const QString&, const QString&) { return path; };
    trigger(action);
    EXPECT_EQ(window_.message(), "");
    QFile file(path);
    EXPECT_TRUE(file.open(QIODevice::ReadOnly)) << name.toStdString();
    return file.readAll();
  }
  static std::string run_cli(std::vector<std::string> arguments) {
    std::ostringstream out, err;
    EXPECT_LE(run(arguments, Environment{}, out, err), kNothingFits);
    return out.str();
  }

  QTemporaryDir folder_;
};

TEST_F(ExportTest, EveryChartAsAPicture) {
  for (int tab = 0; tab < window_.view().charts().count(); ++tab) {
    show_chart(tab);
    const QImage png = QImage::fromData(exported("export_chart", QStringLiteral("%1.png").arg(tab)), "PNG");
    EXPECT_GT(png.width(), 1000) << tab;  // two pixels for each of the screen
    int inks = 0;
    for (int x = 0; x < png.width(); x += 3)
      for (int y = 0; y < png.height(); y += 3) inks += png.pixel(x, y) != png.pixel(0, 0);
    EXPECT_GT(inks, 1000) << tab;
    const QByteArray svg = exported("export_chart", QStringLiteral("%1.svg").arg(tab));
    QXmlStreamReader xml(svg);
    int texts = 0;
    while (!xml.atEnd())
      if (xml.readNext() == QXmlStreamReader::StartElement && xml.name() == QLatin1String("text")) ++texts;
    EXPECT_FALSE(xml.hasError()) << tab;
    EXPECT_GT(texts, 5) << tab;
    EXPECT_TRUE(exported("export_chart", QStringLiteral("%1.pdf").arg(tab)).startsWith("%PDF-"));
  }
}

TEST_F(ExportTest, ThePlanAsTheCommandLinePrintsIt) {
  const std::vector<std::string> readme{"--model", "8B", "--gpus", "5", "--mem", "44"};
  for (const auto& [name, option] : std::vector<std::pair<QString, std::string>>{
           {"plan.json", "--json"}, {"plan.csv", "--csv"}, {"plan.md", "--markdown"}}) {
    std::vector<std::string> arguments = readme;
    arguments.push_back(option);
    EXPECT_EQ(exported("export_report", name).toStdString(), run_cli(arguments));
  }
}

TEST_F(ExportTest, TimelineAndAnswerAsTheCommandLineWritesThem) {
  for (const auto& [action, name, option] : std::vector<std::tuple<const char*, QString, std::string>>{
           {"export_snapshot", "plan.pickle", "--snapshot"},
           {"export_trace", "trace.json", "--trace"},
           {"export_page", "plan.html", "--html"}}) {
    const QString path = folder_.filePath("by-" + name);
    (void)run_cli({"--model", "8B", "--gpus", "5", "--mem", "44", option, path.toStdString()});
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    EXPECT_TRUE(exported(action, name) == file.readAll()) << action;
  }
}

TEST_F(ExportTest, TheComparisonOfScenarios) {
  trigger("duplicate");
  session().set_arguments(1, {"--model", "8B", "--gpus", "8", "--mem", "44"});
  settle();
  const json comparison = json::parse(exported("export_comparison", "c.json").toStdString());
  EXPECT_EQ(comparison["schema"], "zplan.comparison/1");
  ASSERT_EQ(comparison["scenarios"].size(), 2U);
  const std::string markdown = exported("export_comparison", "c.md").toStdString();
  EXPECT_NE(markdown.find("8B on 5 × 44 GiB"), std::string::npos);
  EXPECT_NE(markdown.find("8B on 8 × 44 GiB"), std::string::npos);
  EXPECT_NE(markdown.find("needs"), std::string::npos);
  EXPECT_EQ(exported("export_comparison", "c.csv").count('\n'), 3);  // names, and a line a scenario
}

TEST_F(ExportTest, AnUnknownEndingIsNamedAndNothingIsWritten) {
  const QString path = folder_.filePath("chart.docx");
  window_.dialogs.file_to_write = [path](const QString&, const QString&, const QString&) { return path; };
  for (const char* action : {"export_chart", "export_comparison", "export_report"}) {
    window_.findChild<QWidget*>("message")->hide();
    trigger(action);
    EXPECT_TRUE(window_.message().contains(path)) << action;
    EXPECT_FALSE(QFile::exists(path));
  }
}

TEST_F(ExportTest, AFolderThatIsNotThereIsNamed) {
  const QString path = folder_.filePath("none/chart.png");
  window_.dialogs.file_to_write = [path](const QString&, const QString&, const QString&) { return path; };
  trigger("export_chart");
  EXPECT_TRUE(window_.message().contains(path));
}

TEST_F(ExportTest, TheClipboardHasTableAndCommand) {
  trigger("copy_command");
  EXPECT_EQ(QApplication::clipboard()->text(), "zplan --model 8B --gpus 5 --mem 44");
  trigger("copy_table");
  EXPECT_TRUE(QApplication::clipboard()->text().contains("needs"));
  EXPECT_TRUE(QApplication::clipboard()->text().contains("zero3"));
}

TEST_F(ExportTest, PagesHoldTheChartAndTheTable) {
  QPrinter printer;
  printer.setOutputFormat(QPrinter::PdfFormat);
  printer.setOutputFileName(folder_.filePath("page.pdf"));
  EXPECT_EQ(print(printer, window_.pages()), "");
  QFile file(folder_.filePath("page.pdf"));
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_TRUE(file.readAll().startsWith("%PDF-"));
}

TEST_F(ExportTest, SavedScenariosOpenAgain) {
  trigger("duplicate");
  const ScenarioFile before = session().contents();
  const QString path = folder_.filePath("kept.zplan");
  window_.dialogs.file_to_write = [path](const QString&, const QString&, const QString&) { return path; };
  trigger("save");
  EXPECT_FALSE(window_.isWindowModified());
  trigger("delete");
  EXPECT_TRUE(window_.isWindowModified());
  window_.dialogs.file_to_open = [path](const QString&, const QString&) { return path; };
  int asked = 0;
  window_.dialogs.unsaved_changes = [&asked](const QString&) { return ++asked, Dialogs::Decision::discard; };
  trigger("open");
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(session().contents(), before);
  EXPECT_TRUE(window_.documents().recent().contains(path));
}

}  // namespace
}  // namespace zplan::gui
