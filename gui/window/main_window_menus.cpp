// The window's menus and shortcuts with their actions.

#include <QAction>
#include <QActionGroup>
#include <QApplication>
#include <QDockWidget>
#include <QFileInfo>
#include <QListView>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QSettings>
#include <QStatusBar>
#include <QTabWidget>
#include <QToolBar>
#include <QWhatsThis>

#include "cli/options/help.h"
#include "gui/output/measurements.h"
#include "gui/session/plain_tips.h"
#include "gui/session/words.h"
#include "gui/window/comparison_view.h"
#include "gui/window/help_window.h"
#include "gui/window/main_window.h"

namespace zplan::gui {

QAction* MainWindow::add_action(QMenu* menu, const Command& command) {
  auto* action = menu->addAction(command.text);
  action->setObjectName(QLatin1String(command.name));
  action->setShortcut(command.keys);
  action->setStatusTip(command.tip);
  action->setToolTip(command.tip);
  connect(action, &QAction::triggered, this, command.run);
  return action;
}

void MainWindow::build_menus() {
  build_file_menu();
  build_edit_menu();
  build_compare_menu();
  build_view_menu();
  build_help_menu();
  statusBar();
}

void MainWindow::build_file_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&File"));
  add_action(menu, {"new", tr("&New session"), QKeySequence::New, tr("Begin with the example"),
                    &MainWindow::new_session});
  add_action(menu, {"open", tr("&Open…"), QKeySequence::Open, tr("Open a file of scenarios"),
                    &MainWindow::open_session});
  recent_ = menu->addMenu(tr("Open &recent"));
  add_action(menu, {"restore",
                    tr("Restore the earlier session"),
                    {},
                    tr("What was there before this window was opened with something else"),
                    &MainWindow::restore_previous});
  add_action(menu, {"add_file", tr("&Add from a file…"), QKeySequence(Qt::CTRL | Qt::Key_I),
                    tr("A config.json, a ds_config, scenarios, a saved report, measurements"),
                    &MainWindow::add_files});
  menu->addSeparator();
  add_action(menu,
             {"save", tr("&Save"), QKeySequence::Save, tr("Save the scenarios"), &MainWindow::save_now});
  add_action(menu, {"save_as", tr("Save &as…"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_S),
                    tr("Save the scenarios in another file"), &MainWindow::save_elsewhere});
  menu->addSeparator();
  build_export_menu(menu->addMenu(tr("E&xport")));
  add_action(menu,
             {"print", tr("&Print…"), QKeySequence::Print, tr("Chart and comparison"), &MainWindow::print});
  menu->addSeparator();
  QAction* quit = menu->addAction(tr("&Quit"), this, &QWidget::close);
  quit->setObjectName(QStringLiteral("quit"));
  quit->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_Q));
  fill_recent();
}

void MainWindow::fill_recent() {
  recent_->clear();
  const QStringList files = documents_.recent();
  for (const QString& file : files)
    recent_
        ->addAction(QFileInfo(file).fileName(), this,
                    [this, file] {
                      if (may_leave()) documents_.open(file);
                    })
        ->setToolTip(plain_tip(file));
  recent_->setToolTipsVisible(true);
  if (!files.isEmpty()) recent_->addSeparator();
  recent_->addAction(tr("Forget these"), this, [this] { documents_.forget_recent(); })
      ->setEnabled(!files.isEmpty());
}

void MainWindow::build_edit_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&Edit"));
  QAction* undo = session_.undo_stack().createUndoAction(this, tr("Undo"));
  undo->setObjectName(QStringLiteral("undo"));
  undo->setShortcut(QKeySequence::Undo);
  QAction* redo = session_.undo_stack().createRedoAction(this, tr("Redo"));
  redo->setObjectName(QStringLiteral("redo"));
  redo->setShortcuts({QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z), QKeySequence(Qt::CTRL | Qt::Key_Y)});
  menu->addActions({undo, redo});
  menu->addSeparator();
  const std::vector<Command> commands{
      {"add", tr("&Add a scenario"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_N),
       tr("Add the example as a scenario"), &MainWindow::add_scenario},
      {"duplicate", tr("&Duplicate"), QKeySequence(Qt::CTRL | Qt::Key_D),
       tr("A copy of the current scenario"), &MainWindow::duplicate_scenario},
      {"rename", tr("&Rename"), QKeySequence(Qt::Key_F2), tr("Rename the current scenario"),
       &MainWindow::rename_scenario},
      {"delete", tr("D&elete"), QKeySequence(Qt::Key_Delete), tr("Delete the current scenario"),
       &MainWindow::delete_scenario},
      {"move_up", tr("Move &up"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Up),
       tr("Move the current scenario up"), &MainWindow::move_up},
      {"move_down", tr("Move do&wn"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Down),
       tr("Move the current scenario down"), &MainWindow::move_down}};
  auto* bar = new QToolBar(tr("Scenarios"), this);
  bar->setObjectName(QStringLiteral("scenario_bar"));
  bar->setMovable(false);
  bar->setToolButtonStyle(Qt::ToolButtonTextOnly);
  for (const Command& each : commands) {
    QAction* action = add_action(menu, each);
    list_->addAction(action);
    // Text fields need this key, too: it deletes a scenario only in the list.
    if (each.keys == QKeySequence(Qt::Key_Delete)) action->setShortcutContext(Qt::WidgetWithChildrenShortcut);
    if (QByteArray(each.name) == "add" || QByteArray(each.name) == "duplicate" ||
        QByteArray(each.name) == "delete")
      bar->addAction(action);
  }
  bar->addSeparator();
  bar->addActions({undo, redo});
  addToolBar(bar);
  menu->addSeparator();
  add_action(menu, {"copy_table", tr("Copy as &table"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C),
                    tr("The comparison as text"), &MainWindow::copy_table});
  add_action(menu,
             {"copy_command", tr("Copy as command &line"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_L),
              tr("What to type for the current scenario"), &MainWindow::copy_command});
}

void MainWindow::build_compare_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&Compare"));
  const auto mode = [&](const char* name, const QString& text, const QKeySequence& keys,
                        ComparisonView::Mode which) {
    QAction* action = menu->addAction(text, this, [this, which] { view_->set_mode(which); });
    action->setObjectName(QLatin1String(name));
    action->setShortcut(keys);
    action->setCheckable(true);
  };
  mode("compare_scenarios", tr("&Scenarios"), QKeySequence(Qt::CTRL | Qt::Key_1),
       ComparisonView::Mode::scenarios);
  mode("compare_strategies", tr("S&trategies of the current one"), QKeySequence(Qt::CTRL | Qt::Key_2),
       ComparisonView::Mode::strategies);
  menu->addSeparator();
  list_->addAction(
      add_action(menu, {"pin", tr("&Pin as baseline"), QKeySequence(Qt::CTRL | Qt::Key_B),
                        tr("Differences are from the current scenario"), &MainWindow::pin_baseline}));
  add_action(menu, {"unpin",
                    tr("&Unpin"),
                    {},
                    tr("Differences are from the first that is compared"),
                    &MainWindow::unpin_baseline});
  QAction* differences =
      menu->addAction(tr("&Differences only"), this, [this](bool only) { session_.set_differences(only); });
  differences->setObjectName(QStringLiteral("differences_only"));
  differences->setCheckable(true);
  differences->setShortcut(QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_D));
}

void MainWindow::build_view_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&View"));
  const auto tabs = [&](QTabWidget& widget, Qt::KeyboardModifiers modifiers) {
    for (int i = 0; i < widget.count(); ++i) {
      QAction* action = menu->addAction(widget.tabText(i), this, [this, &widget, i] {
        widget.setCurrentIndex(i);
        view_->refresh();  // an empty table cannot have the focus
        widget.currentWidget()->setFocus();
      });
      action->setShortcut(QKeySequence(static_cast<int>(modifiers) | (Qt::Key_1 + i)));
    }
  };
  tabs(view_->charts(), Qt::AltModifier);
  menu->addSeparator();
  tabs(view_->tables(), Qt::AltModifier | Qt::ShiftModifier);
  menu->addSeparator();
  for (QDockWidget* each : findChildren<QDockWidget*>()) menu->addAction(each->toggleViewAction());
  menu->addSeparator();
  QMenu* languages = menu->addMenu(tr("&Language"));
  auto* group = new QActionGroup(this);
  const QString chosen = QSettings().value(QStringLiteral("language")).toString();
  // Each language has its own name for itself.
  const std::vector<std::pair<QString, QString>> known{{QString(), tr("As the system")},
                                                       {QStringLiteral("en"), QStringLiteral("English")},
                                                       {QStringLiteral("zh_CN"), QStringLiteral("简体中文")}};
  for (const auto& [code, name] : known) {
    QAction* action = languages->addAction(name, this, [this, language = code] { set_language(language); });
    action->setCheckable(true);
    action->setChecked(code == chosen);
    group->addAction(action);
  }
}

void MainWindow::build_help_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&Help"));
  add_action(menu, {"help", tr("&Help"), QKeySequence::HelpContents, tr("About what has the focus"),
                    &MainWindow::show_help});
  menu->addAction(QWhatsThis::createAction(this));
  add_action(menu, {"shortcuts", tr("&Keys"), QKeySequence(Qt::CTRL | Qt::Key_F1), tr("All shortcuts"),
                    &MainWindow::show_shortcuts});
  add_action(menu, {"about", tr("&About zplan"), {}, {}, &MainWindow::show_about});
}

void MainWindow::update_actions() {
  const int row = session_.current();
  const auto enable = [this](const char* name, bool enabled) {
    findChild<QAction*>(QLatin1String(name))->setEnabled(enabled);
  };
  for (const char* name : {"duplicate", "rename", "delete", "pin", "copy_command", "export_report",
                           "export_snapshot", "export_trace", "export_page"})
    enable(name, row >= 0);
  enable("move_up", row > 0);
  enable("move_down", row >= 0 && row + 1 < session_.size());
  enable("unpin", session_.is_baseline_pinned());
  findChild<QAction*>(QStringLiteral("differences_only"))->setChecked(session_.differences());
  const bool by_scenario = view_->mode() == ComparisonView::Mode::scenarios;
  findChild<QAction*>(QStringLiteral("compare_scenarios"))->setChecked(by_scenario);
  findChild<QAction*>(QStringLiteral("compare_strategies"))->setChecked(!by_scenario);
}

void MainWindow::show_measurements(const QString& path) {
  auto* dialog = new MeasurementsDialog(session_.planning().environment(), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  std::optional<Subject> plan;
  if (const int row = session_.current();
      row >= 0 && session_.at(row).planned && !session_.at(row).planned->saved)
    plan = Subject{qt(session_.at(row).scenario.name), session_.at(row).planned,
                   session_.at(row).planned->shown};
  dialog->check({path}, plan);
  dialog->show();
}

void MainWindow::set_language(const QString& language) {
  QSettings().setValue(QStringLiteral("language"), language);
  say(tr("The language changes when the window is next opened."));
}

// ---- help

void MainWindow::show_help() {
  if (!help_) help_ = new HelpWindow(this);
  help_->show_topic(help_topic(QApplication::focusWidget()));
}

void MainWindow::show_shortcuts() {
  if (!help_) help_ = new HelpWindow(this);
  help_->show_topic(tr("Keys"));
}

void MainWindow::show_about() { QMessageBox::about(this, tr("About zplan"), qt(version_text())); }

}  // namespace zplan::gui
