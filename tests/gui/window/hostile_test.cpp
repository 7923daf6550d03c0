// Names and files of others in the window: markup, formulas and escapes stay text, and files are written as
// the command line writes them.

#include <sys/stat.h>

#include <QAbstractScrollArea>
#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QHelpEvent>
#include <QLabel>
#include <QMimeData>
#include <QTemporaryDir>
#include <QTextDocument>
#include <QTextEdit>
#include <QToolTip>
#include <QXmlStreamReader>
#include <algorithm>
#include <vector>

#include "window_support.h"

namespace zplan::gui {
namespace {

constexpr const char* kImage = "<img src='/dev/zero'>";
const std::vector<std::string> kReadme{"--model", "8B", "--gpus", "5", "--mem", "44"};

/// True if Qt would read the image that the text names.
bool has_image(const QString& text) {
  if (!Qt::mightBeRichText(text)) return false;
  QTextDocument document;
  document.setHtml(text);
  return document.toHtml().contains("<img");
}

class HostileTest : public WindowTest {
 protected:
  HostileTest() {
    session().load({.scenarios = named({kImage, "=HYPERLINK(1)", "a|b", "</table><h1>x", "&amp;<b>"})});
  }

  static std::vector<Scenario> named(const std::vector<std::string>& names) {
    std::vector<Scenario> all;
    for (const std::string& each : names) all.push_back({.name = each, .arguments = kReadme});
    return all;
  }
  [[nodiscard]] QString path(const char* name) const { return folder_.filePath(name); }
  QByteArray text_of(const QString& file) const {
    QFile read(file);
    EXPECT_TRUE(read.open(QIODevice::ReadOnly)) << file.toStdString();
    return read.readAll();
  }
  /// Triggers an action that writes; returns what the window says.
  QString written(const char* action, const QString& file) {
    window_.findChild<QWidget*>("message")->hide();
    window_.dialogs.file_to_write = [file](const QString&, const QString&, const QString&) { return file; };
    trigger(action);
    return window_.findChild<QWidget*>("message")->isVisible() ? window_.message() : QString();
  }
  /// Every tooltip below the pointer, wherever it stands over lists, tables and charts.
  QStringList tips() {
    constexpr int kStep = 14;
    QStringList all;
    for (QAbstractScrollArea* area : window_.findChildren<QAbstractScrollArea*>()) {
      if (!area->isVisible()) continue;
      QWidget* viewport = area->viewport();
      for (int y = 3; y < viewport->height(); y += kStep)
        for (int x = 3; x < viewport->width(); x += kStep) {
          QHelpEvent event(QEvent::ToolTip, {x, y}, viewport->mapToGlobal(QPoint(x, y)));
          QCoreApplication::sendEvent(viewport, &event);
          if (const QString tip = QToolTip::text(); !tip.isEmpty() && !all.contains(tip)) all << tip;
        }
    }
    QToolTip::hideText();
    return all;
  }
  void expect_no_image() {
    for (const QLabel* label : window_.findChildren<QLabel*>())
      EXPECT_FALSE(label->textFormat() != Qt::PlainText && has_image(label->text()))
          << label->text().toStdString();
    for (const QTextEdit* edit : window_.findChildren<QTextEdit*>())
      EXPECT_FALSE(edit->document()->toHtml().contains("<img")) << edit->objectName().toStdString();
    for (QWidget* widget : window_.findChildren<QWidget*>()) {
      if (!widget->isVisible() || widget->toolTip().isEmpty()) continue;
      QHelpEvent event(QEvent::ToolTip, {1, 1}, widget->mapToGlobal(QPoint(1, 1)));
      QCoreApplication::sendEvent(widget, &event);
      EXPECT_FALSE(has_image(QToolTip::text())) << QToolTip::text().toStdString();
    }
  }

  QTemporaryDir folder_;
};

TEST_F(HostileTest, NamesAreTextInEveryTabAndTooltip) {
  settle();
  int named = 0;
  for (const auto mode : {ComparisonView::Mode::scenarios, ComparisonView::Mode::strategies}) {
    window_.view().set_mode(mode);
    settle();
    const int tabs = std::max(window_.view().charts().count(), window_.view().tables().count());
    for (int tab = 0; tab < tabs; ++tab) {
      show_chart(std::min(tab, window_.view().charts().count() - 1));
      show_table(std::min(tab, window_.view().tables().count() - 1));
      settle();
      expect_no_image();
      for (const QString& tip : tips()) {
        EXPECT_FALSE(has_image(tip)) << tip.toStdString();
        named += tip.contains("img src");
      }
    }
  }
  EXPECT_GT(named, 0) << "no tooltip has the name";
}

TEST_F(HostileTest, AProblemThatNamesAValueIsText) {
  session().set_arguments(0, {"--model", kImage, "--gpus", "5", "--gpu", "<h1>x"});
  settle();
  expect_no_image();
  for (const QString& tip : tips()) EXPECT_FALSE(has_image(tip)) << tip.toStdString();
  EXPECT_TRUE(session().at(0).problem.has_value());
}

TEST_F(HostileTest, AModelsOwnNameIsText) {
  const QString model =
      test::write(path("config.json"),
                  R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":1024,
      "intermediate_size":4096,"num_hidden_layers":4,"num_attention_heads":8,"num_key_value_heads":8,"vocab_size":32000,
      "_name_or_path":"<img src='/dev/zero'>\u001b[31m\u202e"})");
  session().load(
      {.scenarios = {
           {.name = "a", .arguments = {"--model", model.toStdString(), "--gpus", "2", "--mem", "24"}}}});
  settle();
  ASSERT_TRUE(session().at(0).planned);
  for (int tab = 0; tab < window_.view().tables().count(); ++tab) {
    show_table(tab);
    settle();
    expect_no_image();
    for (const QString& tip : tips()) EXPECT_FALSE(has_image(tip)) << tip.toStdString();
  }
  EXPECT_EQ(written("export_page", path("p.html")), "");
  EXPECT_FALSE(text_of(path("p.html")).contains("<img"));
  for (const char* name : {"r.md", "r.csv", "r.txt"}) {
    EXPECT_EQ(written("export_report", path(name)), "");
    for (const char* raw : {"\x1b", "\xe2\x80\xae"}) EXPECT_FALSE(text_of(path(name)).contains(raw)) << name;
  }
  EXPECT_FALSE(text_of(path("r.md")).contains("<img"));
}

TEST_F(HostileTest, NamesAreDataInWhatIsExported) {
  settle();
  EXPECT_EQ(written("export_comparison", path("c.md")), "");
  EXPECT_FALSE(text_of(path("c.md")).contains("<img"));
  EXPECT_EQ(written("export_comparison", path("c.csv")), "");
  for (const QByteArray& line : text_of(path("c.csv")).split('\n'))
    EXPECT_FALSE(line.startsWith('=') || line.startsWith("\"=")) << line.toStdString();
  EXPECT_EQ(written("export_comparison", path("c.json")), "");
  EXPECT_EQ(json::parse(text_of(path("c.json")).toStdString()).at("scenarios").at(0).at("name"), kImage);
  for (int tab = 0; tab < window_.view().charts().count(); ++tab) {
    show_chart(tab);
    EXPECT_EQ(written("export_chart", path("c.svg")), "");
    QXmlStreamReader xml(text_of(path("c.svg")));
    while (!xml.atEnd()) {
      if (xml.readNext() != QXmlStreamReader::StartElement) continue;
      EXPECT_FALSE(xml.name() == QLatin1String("img") || xml.name() == QLatin1String("h1")) << tab;
    }
    EXPECT_FALSE(xml.hasError()) << tab;
  }
  trigger("copy_table");
  EXPECT_FALSE(has_image(QApplication::clipboard()->mimeData()->html()));
  EXPECT_FALSE(window_.pages().table.contains("<img"));
}

TEST_F(HostileTest, ScenariosOfOtherNamesOpenAgain) {
  const ScenarioFile before = session().contents();
  EXPECT_EQ(written("save_as", path("<b>.zplan")), "");
  EXPECT_FALSE(has_image(window_.windowTitle()));
  window_.documents().open(path("<b>.zplan"));
  EXPECT_EQ(session().contents(), before);
}

/// Lists the files that the window writes, and the action that writes each.
class HostileFiles : public HostileTest {
 protected:
  struct Row {
    const char *action, *name;
  };
  const std::vector<Row> kRows{{"export_chart", "f.svg"},       {"export_chart", "f.png"},
                               {"export_comparison", "f.csv"},  {"export_report", "f.json"},
                               {"export_page", "f.html"},       {"export_trace", "f.trace"},
                               {"export_snapshot", "f.pickle"}, {"save_as", "f.zplan"}};

  HostileFiles() {
    session().load({.scenarios = named({"one"})});
    settle();
  }
  [[nodiscard]] QStringList files() const {
    return QDir(folder_.path()).entryList(QDir::AllEntries | QDir::System | QDir::NoDotAndDotDot);
  }
  static unsigned mode_of(const QString& file) {
    struct stat about {};
    EXPECT_EQ(::stat(file.toUtf8().constData(), &about), 0);
    return about.st_mode & 07777U;
  }
};

TEST_F(HostileFiles, KeepTheirPermissions) {
  for (const auto& [action, name] : kRows) {
    const QString file = test::write(path(name), "MINE");
    ASSERT_EQ(::chmod(file.toUtf8().constData(), 0600), 0);
    EXPECT_EQ(written(action, file), "") << name;
    EXPECT_NE(text_of(file), "MINE") << name;
    EXPECT_EQ(mode_of(file), 0600U) << name;
  }
  EXPECT_EQ(files().size(), int(kRows.size()));
}

TEST_F(HostileFiles, ThatAreReadOnlyStay) {
  for (const auto& [action, name] : kRows) {
    const QString file = test::write(path(name), "MINE");
    ASSERT_EQ(::chmod(file.toUtf8().constData(), 0444), 0);
    EXPECT_TRUE(written(action, file).contains("read-only")) << name;
    EXPECT_EQ(text_of(file), "MINE") << name;
  }
  EXPECT_EQ(files().size(), int(kRows.size()));
}

TEST_F(HostileFiles, BehindALinkOutOfTheFolderStay) {
  ASSERT_TRUE(QDir(folder_.path()).mkdir("in"));
  const QString victim = test::write(path("victim"), "MINE");
  for (const auto& [action, name] : kRows) {
    const QString link = path("in/") + name;
    ASSERT_TRUE(QFile::link("../victim", link));
    EXPECT_TRUE(written(action, link).contains("out of its folder")) << name;
    EXPECT_EQ(text_of(victim), "MINE") << name;
    EXPECT_TRUE(QFileInfo(link).isSymLink()) << name;
  }
}

TEST_F(HostileFiles, BehindALinkWithinTheFolderAreReplacedAndTheLinkStays) {
  for (const auto& [action, name] : kRows) {
    const QString file = test::write(path(name), "MINE"), link = path("l-") + name;
    ASSERT_TRUE(QFile::link(name, link));
    EXPECT_EQ(written(action, link), "") << name;
    EXPECT_NE(text_of(file), "MINE") << name;
    EXPECT_TRUE(QFileInfo(link).isSymLink()) << name;
  }
}

TEST_F(HostileFiles, ThatArePipesAreNotWaitedFor) {
  for (const auto& [action, name] : kRows) {
    ASSERT_EQ(::mkfifo(path(name).toUtf8().constData(), 0600), 0);
    EXPECT_TRUE(written(action, path(name)).contains("cannot be written")) << name;
  }
  EXPECT_EQ(files().size(), int(kRows.size()));
}

TEST_F(HostileFiles, ThatAreFoldersStay) {
  for (const auto& [action, name] : kRows) {
    ASSERT_TRUE(QDir(folder_.path()).mkdir(name));
    EXPECT_TRUE(written(action, path(name)).contains("it is a folder")) << name;
  }
  EXPECT_EQ(files().size(), int(kRows.size()));
}

}  // namespace
}  // namespace zplan::gui
