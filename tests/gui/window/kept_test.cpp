// The session on disk: kept while it changes, back after a crash.

#include <QFile>
#include <QProcess>
#include <QSettings>
#include <QTemporaryDir>

#include "window_support.h"

namespace zplan::gui {
namespace {

QStringList names(const Session& session) {
  QStringList all;
  for (int row = 0; row < session.size(); ++row) all << QString::fromStdString(session.at(row).scenario.name);
  return all;
}

class KeptTest : public ::testing::Test {
 protected:
  [[nodiscard]] QString folder() const { return home_.filePath("sessions"); }
  QTemporaryDir home_;
};

TEST_F(KeptTest, ASessionComesBack) {
  ScenarioFile before;
  {
    MainWindow window(Environment{}, folder());
    window.start({});
    window.session().duplicate(0);
    window.session().rename(1, "longer");
    window.session().set_arguments(1, {"--model", "8B", "--seq", "8192"}, "--seq");
    window.session().set_baseline(window.session().at(1).id);
    before = window.session().contents();
  }
  MainWindow window(Environment{}, folder());
  window.start({});
  EXPECT_EQ(window.session().contents(), before);
}

TEST_F(KeptTest, AWindowThatIsKilledComesBackWithItsSession) {
  QProcess program;
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert("XDG_DATA_HOME", home_.path());
  environment.insert("XDG_CONFIG_HOME", home_.path());
  environment.insert("QT_QPA_PLATFORM", "offscreen");
  program.setProcessEnvironment(environment);
  program.start(ZPLAN_GUI_PROGRAM, {"--model", "8B", "--gpus", "7", "--mem", "44"});
  ASSERT_TRUE(program.waitForStarted());
  const QString kept = home_.filePath("zplan/zplan/sessions/session-1.zplan");
  ASSERT_TRUE(test::wait_until([&] { return QFile::exists(kept); }));
  program.kill();
  ASSERT_TRUE(program.waitForFinished());

  MainWindow window(Environment{}, home_.filePath("zplan/zplan/sessions"));
  window.start({});
  ASSERT_EQ(window.session().size(), 1);
  EXPECT_EQ(window.session().at(0).scenario.arguments,
            (std::vector<std::string>{"--model", "8B", "--gpus", "7", "--mem", "44"}));
  EXPECT_EQ(names(window.session()), QStringList{"8B on 7 × 44 GiB"});
}

TEST_F(KeptTest, TwoWindowsDoNotOverwriteEachOther) {
  MainWindow one(Environment{}, folder());
  one.start({});
  one.session().rename(0, "one");
  {
    MainWindow two(Environment{}, folder());
    two.start({});
    two.session().rename(0, "two");
  }
  MainWindow two(Environment{}, folder());
  two.start({});
  EXPECT_EQ(names(one.session()), QStringList{"one"});
  EXPECT_EQ(names(two.session()), QStringList{"two"});
}

TEST_F(KeptTest, WhatWasKeptCanBeHadBackAfterSomethingElseWasOpened) {
  {
    MainWindow window(Environment{}, folder());
    window.start({});
    window.session().rename(0, "long work");
  }
  MainWindow window(Environment{}, folder());
  window.start({"--model", "7B"});
  EXPECT_EQ(window.session().at(0).scenario.arguments, (std::vector<std::string>{"--model", "7B"}));
  window.findChild<QAction*>("restore")->trigger();
  EXPECT_EQ(names(window.session()), QStringList{"long work"});
}

TEST_F(KeptTest, WhatAnotherFileReplacesCanBeHadBack) {
  const QString file = test::write(
      home_.filePath("other.zplan"),
      R"({"schema": "zplan.scenarios/1", "scenarios": [{"name": "other", "arguments": ["--model", "7B"]}]})");
  MainWindow window(Environment{}, folder());
  window.start({});
  window.session().rename(0, "long work");
  EXPECT_TRUE(window.documents().open(file));
  EXPECT_EQ(names(window.session()), QStringList{"other"});
  window.findChild<QAction*>("restore")->trigger();
  EXPECT_EQ(names(window.session()), QStringList{"long work"});
  EXPECT_EQ(window.documents().file(), "");  // saving does not overwrite the file that was open
}

TEST_F(KeptTest, ASessionComesBackWithItsFileAndWhetherItHadChanged) {
  const QString file = home_.filePath("kept.zplan");
  {
    MainWindow window(Environment{}, folder());
    window.start({});
    EXPECT_TRUE(window.documents().save(file));
    window.session().rename(0, "later");
  }
  {
    MainWindow window(Environment{}, folder());
    window.start({});
    EXPECT_EQ(window.documents().file(), file);
    EXPECT_TRUE(window.documents().is_modified());
    window.dialogs.unsaved_changes = [](const QString&) { return Dialogs::Decision::discard; };
    window.findChild<QAction*>("new")->trigger();
    window.session().rename(0, "without a file");
  }
  MainWindow window(Environment{}, folder());
  window.start({});
  EXPECT_EQ(names(window.session()), QStringList{"without a file"});
  EXPECT_EQ(window.documents().file(), "");
}

TEST_F(KeptTest, AKeptFileThatIsBrokenIsMovedAsideAndSaidSo) {
  QString file;
  {
    MainWindow window(Environment{}, folder());
    window.start({});
    file = folder() + "/session-1.zplan";
    window.session().rename(0, "x");
  }
  test::write(file, "{\"schema\": \"zplan.scen");
  MainWindow window(Environment{}, folder());
  window.start({});
  EXPECT_TRUE(window.message().contains(file)) << window.message().toStdString();
  EXPECT_TRUE(QFile::exists(file + ".broken"));
  EXPECT_EQ(window.session().size(), 1);
}

TEST_F(KeptTest, WhereNothingCanBeKeptTheWindowSaysSoAndWorks) {
  const QString blocked = test::write(home_.filePath("file"), "") + "/sessions";
  MainWindow window(Environment{}, blocked);
  window.start({});
  EXPECT_EQ(window.session().size(), 1);
  EXPECT_TRUE(window.message().contains(blocked));
}

}  // namespace
}  // namespace zplan::gui
