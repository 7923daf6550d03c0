#pragma once

#include <gtest/gtest.h>

#include <QAction>
#include <QListView>
#include <QMenuBar>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run.h"
#include "gui/charts/chart.h"
#include "gui/tables/comparison_model.h"
#include "gui/window/comparison_view.h"
#include "gui/window/main_window.h"
#include "tests/gui/support.h"

namespace zplan::gui {

using nlohmann::json;

/// A window that shows the example.
class WindowTest : public ::testing::Test {
 protected:
  WindowTest() {
    window_.start({});
    window_.show();
    EXPECT_TRUE(QTest::qWaitForWindowExposed(&window_));
    settle();
  }

  /// Until all is planned and drawn.
  void settle() {
    EXPECT_TRUE(test::wait_until([this] { return session().planning().is_idle(); }));
    QCoreApplication::processEvents();
  }
  Session& session() { return window_.session(); }
  template <class T>
  T* find(const char* name) {
    T* found = window_.findChild<T*>(QString::fromUtf8(name));
    EXPECT_NE(found, nullptr) << name;
    return found;
  }
  void trigger(const char* action) {
    QAction* found = find<QAction>(action);
    ASSERT_TRUE(found->isEnabled()) << action;
    found->trigger();
  }
  void press(int key, Qt::KeyboardModifiers modifiers = {}) {
    QTest::keyClick(&window_, Qt::Key(key), modifiers);
  }
  void show_chart(int tab) {
    window_.view().charts().setCurrentIndex(tab);
    window_.view().refresh();
  }
  void show_table(int tab) {
    window_.view().tables().setCurrentIndex(tab);
    window_.view().refresh();
  }
  QAbstractItemModel& comparison() { return *find<QTableView>("comparison")->model(); }
  /// A cell of the comparison: the line's name with its unit, the subject's column.
  QString cell(const QString& line, int subject, bool difference = false) {
    for (int row = 0; row < comparison().rowCount(); ++row) {
      if (comparison().headerData(row, Qt::Vertical).toString() != line) continue;
      for (int column = 0; column < comparison().columnCount(); ++column) {
        const QModelIndex index = comparison().index(row, column);
        if (index.data(ComparisonModel::SubjectRole).toInt() == subject &&
            index.data(ComparisonModel::DifferenceRole).toBool() == difference)
          return index.data().toString();
      }
    }
    ADD_FAILURE() << "no line " << line.toStdString();
    return {};
  }

  MainWindow window_{Environment{}};
};

/// Returns what `zplan` prints for the arguments with --json.
inline json printed(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  std::ostringstream out, err;
  EXPECT_LE(run(arguments, Environment{}, out, err), kNothingFits);
  return json::parse(out.str());
}

}  // namespace zplan::gui
