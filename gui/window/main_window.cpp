#include "gui/window/main_window.h"

#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QItemSelectionModel>
#include <QLineEdit>
#include <QListView>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QSettings>
#include <QStackedWidget>
#include <QStatusBar>
#include <QToolBar>
#include <QVBoxLayout>
#include <utility>

#include "cli/options/command_line.h"
#include "gui/editors/editor_panel.h"
#include "gui/session/plain_tips.h"
#include "gui/session/words.h"
#include "gui/tables/scenario_list.h"
#include "gui/window/comparison_view.h"
#include "gui/window/verdict_bar.h"
#include "models/base/error.h"

namespace zplan::gui {

namespace {

Dialogs system_dialogs(QWidget* parent) {
  return {.file_to_open =
              [parent](const QString& title, const QString& filter) {
                return QFileDialog::getOpenFileName(parent, title, {}, filter);
              },
          .file_to_write =
              [parent](const QString& title, const QString& suggested, const QString& filter) {
                QFileDialog dialog(parent, title, suggested, filter);
                dialog.setAcceptMode(QFileDialog::AcceptSave);
                // Appended before the dialog asks whether to replace a file.
                dialog.setDefaultSuffix(QFileInfo(suggested).suffix());
                return dialog.exec() == QDialog::Accepted ? dialog.selectedFiles().value(0) : QString();
              },
          .unsaved_changes =
              [parent](const QString& question) {
                QMessageBox box(QMessageBox::Question, MainWindow::tr("Unsaved changes"), question,
                                QMessageBox::Save | QMessageBox::Discard | QMessageBox::Cancel, parent);
                box.setTextFormat(Qt::PlainText);  // it names a file
                const int answer = box.exec();
                if (answer == QMessageBox::Save) return Dialogs::Decision::save;
                return answer == QMessageBox::Discard ? Dialogs::Decision::discard
                                                      : Dialogs::Decision::cancel;
              }};
}

/// Number of the window's set of panels: an arrangement of another set is not restored.
constexpr int kPanels = 1;

QString scenario_files() { return MainWindow::tr("Scenarios (*.zplan);;All files (*)"); }

/// Appends the suffix to a name without one.
QString with_suffix(QString path, const QString& suffix) {
  if (!path.isEmpty() && QFileInfo(path).suffix().isEmpty()) path += suffix;
  return path;
}

}  // namespace

MainWindow::MainWindow(const Environment& environment, const QString& kept, QWidget* parent)
    : QMainWindow(parent),
      dialogs(system_dialogs(this)),
      session_(environment),
      documents_(session_),
      scenarios_(new ScenarioListModel(session_, this)),
      list_(new QListView(this)),
      view_(new ComparisonView(session_, this)),
      message_(new MessageBar(this)) {
  setAcceptDrops(true);
  qApp->installEventFilter(new PlainTips(this));
  build_panels();
  build_middle();
  build_menus();
  if (!kept.isEmpty()) {
    kept_ = std::make_unique<KeptSession>(session_, kept);
    connect(kept_.get(), &KeptSession::failed, this, &MainWindow::say);
    // The replaced session can be restored, unless it is only the example.
    connect(&documents_, &Documents::about_to_replace, this, [this] {
      if (session_.is_empty() || (session_.size() == 1 && session_.at(0).scenario == first_scenario()))
        return;
      kept_->keep_now();
      kept_->set_aside();
    });
    connect(&documents_, &Documents::changed, this,
            [this] { kept_->keep_document(documents_.file(), documents_.is_modified()); });
    if (kept_->file().isEmpty()) say(tr("%1: cannot be written; the session is not kept").arg(kept));
  }
  connect(&documents_, &Documents::problem, this, &MainWindow::say);
  connect(&documents_, &Documents::measurements, this, &MainWindow::show_measurements);
  connect(&documents_, &Documents::changed, this, [this] {
    update_title();
    fill_recent();
  });
  const auto changed = [this] { update_actions(); };
  connect(&session_, &Session::inserted, this, changed);
  connect(&session_, &Session::inserted, this, [this] {
    leave_start_page();
    // The second scenario switches to comparing scenarios.
    if (session_.size() == 2) view_->set_mode(ComparisonView::Mode::scenarios);
  });
  connect(&session_, &Session::removed, this, changed);
  connect(&session_, &Session::moved, this, changed);
  connect(&session_, &Session::reset, this, [this] {
    if (!session_.is_empty()) leave_start_page();
    const bool several = session_.size() > 1;
    view_->set_mode(several ? ComparisonView::Mode::scenarios : ComparisonView::Mode::strategies);
    update_actions();
  });
  connect(&session_, &Session::comparison_changed, this, changed);
  connect(&session_, &Session::current_changed, this, &MainWindow::show_row);
  resize(1280, 800);
  restore_view();
  update_actions();
  update_title();
}

MainWindow::~MainWindow() {
  // Widgets use the session, a member, which would be destroyed before them.
  delete takeCentralWidget();
  qDeleteAll(findChildren<QDockWidget*>(QString(), Qt::FindDirectChildrenOnly));
}

void MainWindow::build_panels() {
  list_->setObjectName(QStringLiteral("scenarios"));
  list_->setAccessibleName(tr("Scenarios"));
  list_->setModel(scenarios_);
  list_->setItemDelegate(new ScenarioDelegate(list_));
  list_->setSelectionMode(QAbstractItemView::SingleSelection);
  list_->setEditTriggers(QAbstractItemView::EditKeyPressed | QAbstractItemView::DoubleClicked);
  list_->setDragDropMode(QAbstractItemView::InternalMove);
  list_->setContextMenuPolicy(Qt::ActionsContextMenu);
  list_->setUniformItemSizes(true);
  list_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  list_->setWhatsThis(
      tr("A scenario is a question as it would be typed behind zplan. A tick puts it into the "
         "comparison; drag it to another place, press F2 to rename it."));
  connect(list_->selectionModel(), &QItemSelectionModel::currentChanged, this,
          [this](const QModelIndex& now) {
            if (now.isValid()) session_.set_current(now.row());
          });

  const auto dock = [this](const QString& name, const QString& title, QWidget* content,
                           Qt::DockWidgetArea area) {
    auto* panel = new QDockWidget(title, this);
    panel->setObjectName(name);
    panel->setWidget(content);
    panel->setFeatures(QDockWidget::DockWidgetClosable | QDockWidget::DockWidgetMovable);
    addDockWidget(area, panel);
    return panel;
  };
  QDockWidget* left = dock(QStringLiteral("scenarios_panel"), tr("Scenarios"), list_, Qt::LeftDockWidgetArea);
  auto* editors = new EditorPanel(session_, this);
  editors->setObjectName(QStringLiteral("editors"));
  QDockWidget* right = dock(QStringLiteral("options_panel"), tr("Options"), editors, Qt::RightDockWidgetArea);
  resizeDocks({left, right}, {240, 310}, Qt::Horizontal);

  // Headings of the help page in its language.
  list_->setProperty("help_topic", tr("Scenarios"));
  editors->setProperty("help_topic", tr("Options"));
  view_->setProperty("help_topic", tr("Comparison"));
}

void MainWindow::build_middle() {
  auto* top = new QToolBar(tr("Verdict"), this);
  top->setObjectName(QStringLiteral("verdict_bar"));
  top->setMovable(false);
  top->setContextMenuPolicy(Qt::PreventContextMenu);
  top->toggleViewAction()->setEnabled(false);
  top->addWidget(new VerdictBar(session_, top));
  addToolBar(top);
  addToolBarBreak();

  auto* middle = new QWidget(this);
  auto* column = new QVBoxLayout(middle);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  middle_ = new QStackedWidget(middle);
  middle_->addWidget(view_);
  column->addWidget(message_);
  column->addWidget(middle_, 1);
  setCentralWidget(middle);
  connect(view_, &ComparisonView::mode_changed, this, &MainWindow::update_actions);
  connect(view_, &ComparisonView::style_wanted, this, [this](const QString& style) {
    const int row = session_.current();
    if (row < 0 || !session_.at(row).scenario.report.empty()) return;
    session_.set_arguments(
        row, with_options(session_.at(row).scenario.arguments, {{"--config-style", style.toStdString()}}));
  });
}

// ---- starting and files

void MainWindow::start(const QStringList& words, bool asks) {
  if (!words.isEmpty()) {
    if (kept_) kept_->set_aside();
    documents_.set_file({}, false);
    if (words.front().startsWith(QLatin1Char('-'))) {
      std::vector<std::string> arguments;
      for (const QString& each : words) arguments.push_back(each.toStdString());
      arguments = with_absolute_paths(arguments);
      session_.load({.scenarios = {{.name = name_of_question(arguments), .arguments = arguments}}});
    } else if (words.size() == 1) {
      documents_.open(words.front());
    } else {
      documents_.add(words);
    }
  } else if (kept_ && kept_->has_kept()) {
    const QString document = kept_->document();
    const bool modified = kept_->is_document_modified();
    try {
      kept_->restore();
      documents_.set_file(document, modified);
    } catch (const InputError& error) {
      say(tr("The session that was kept cannot be read: %1").arg(QString::fromUtf8(error.what())));
    }
  }
  if (session_.is_empty() && words.isEmpty() && asks)
    show_start_page();
  else if (session_.is_empty())
    session_.load({.scenarios = {first_scenario()}});
  update_actions();
}

/// Shows the questions of the first start alone; the panels come back with the first scenario.
void MainWindow::show_start_page() {
  start_page_ = new StartPage(session_.planning().environment(), middle_);
  start_page_->setProperty("help_topic", tr("Scenarios"));
  connect(start_page_, &StartPage::answered, this,
          [this](const Scenario& scenario) { session_.load({.scenarios = {scenario}}); });
  connect(start_page_, &StartPage::skipped, this,
          [this] { session_.load({.scenarios = {first_scenario()}}); });
  middle_->addWidget(start_page_);
  middle_->setCurrentWidget(start_page_);
  for (QWidget* each : findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly)) {
    const bool is_panel =
        qobject_cast<QDockWidget*>(each) != nullptr || qobject_cast<QToolBar*>(each) != nullptr;
    if (!is_panel || each->isHidden()) continue;
    each->hide();
    hidden_ << each;
  }
}

void MainWindow::leave_start_page() {
  if (!is_starting()) return;
  middle_->removeWidget(start_page_);
  start_page_->deleteLater();  // one of its buttons may be what was just clicked
  start_page_ = nullptr;
  for (QWidget* each : std::exchange(hidden_, {})) each->show();
  list_->setFocus();
}

bool MainWindow::may_leave() {
  if (!documents_.is_modified() || documents_.file().isEmpty()) return true;
  const auto decision =
      dialogs.unsaved_changes(tr("Save the changes to %1?").arg(QFileInfo(documents_.file()).fileName()));
  return decision == Dialogs::Decision::discard || (decision == Dialogs::Decision::save && save());
}

void MainWindow::closeEvent(QCloseEvent* event) {
  // A saved session is restored next time with its changes.
  const bool is_kept = kept_ && kept_->keep_now();
  if (!is_kept && !may_leave()) return event->ignore();
  save_view();
  event->accept();
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  QStringList paths;
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile())
      paths << url.toLocalFile();
    else
      say(tr("%1: not a file of this machine").arg(url.toDisplayString()));
  }
  event->acceptProposedAction();
  documents_.add(paths);
}

void MainWindow::new_session() {
  if (!may_leave()) return;
  documents_.close();
  session_.load({.scenarios = {first_scenario()}});
}

void MainWindow::open_session() {
  const QString path = dialogs.file_to_open(tr("Open scenarios"), scenario_files());
  if (!path.isEmpty() && may_leave()) documents_.open(path);
}

void MainWindow::add_files() {
  const QString path = dialogs.file_to_open(tr("Add from a file"),
                                            tr("config.json, ds_config, scenarios, reports, measurements "
                                               "(*.json *.zplan *.log *.txt);;All files (*)"));
  if (!path.isEmpty()) documents_.add({path});
}

bool MainWindow::save() {
  // Accept a name that is still being typed.
  if (auto* field = qobject_cast<QLineEdit*>(QApplication::focusWidget())) Q_EMIT field->editingFinished();

  return documents_.file().isEmpty() ? save_as() : documents_.save(documents_.file());
}

bool MainWindow::save_as() {
  const QString suggested =
      documents_.file().isEmpty() ? QStringLiteral("comparison.zplan") : documents_.file();
  const QString path = with_suffix(dialogs.file_to_write(tr("Save scenarios"), suggested, scenario_files()),
                                   QStringLiteral(".zplan"));
  return !path.isEmpty() && documents_.save(path);
}

void MainWindow::save_now() { save(); }
void MainWindow::save_elsewhere() { save_as(); }

void MainWindow::restore_previous() {
  const QString previous = kept_ ? kept_->previous() : QString();
  if (previous.isEmpty()) return say(tr("There is no earlier session."));
  if (!may_leave()) return;
  try {
    const ScenarioFile scenarios = read_scenario_file(previous.toStdString());
    kept_->keep_now();
    kept_->set_aside();  // so that the two can be swapped again
    session_.load(scenarios);
    documents_.set_file({}, false);
  } catch (const InputError& error) {
    say(QString::fromUtf8(error.what()));
  }
}

void MainWindow::say(const QString& message) { message_->show_message(message); }
QString MainWindow::message() const { return message_->text(); }

// ---- scenarios

void MainWindow::show_row() {
  const int row = session_.current();
  const QModelIndex index = row < 0 ? QModelIndex() : scenarios_->index(row);
  list_->selectionModel()->setCurrentIndex(index, QItemSelectionModel::ClearAndSelect);
  update_actions();
}

void MainWindow::add_scenario() {
  Scenario made = first_scenario();
  made.name = session_.free_name(qt(made.name)).toStdString();
  session_.add(made);
}

void MainWindow::duplicate_scenario() { session_.duplicate(session_.current()); }

void MainWindow::rename_scenario() {
  list_->setFocus();
  list_->edit(scenarios_->index(session_.current()));
}

void MainWindow::delete_scenario() { session_.remove(session_.current()); }
void MainWindow::move_up() { session_.move(session_.current(), session_.current() - 1); }
void MainWindow::move_down() { session_.move(session_.current(), session_.current() + 1); }
void MainWindow::pin_baseline() { session_.set_baseline(session_.at(session_.current()).id); }
void MainWindow::unpin_baseline() { session_.set_baseline(0); }

void MainWindow::update_title() {
  const QString file = documents_.file();
  setWindowTitle(QStringLiteral("%1[*]").arg(
      file.isEmpty() ? tr("zplan") : tr("%1 — zplan").arg(QFileInfo(file).fileName())));
  setWindowModified(!file.isEmpty() && documents_.is_modified());
}

void MainWindow::save_view() {
  QSettings settings;
  settings.setValue(QStringLiteral("geometry"), saveGeometry());
  if (!is_starting()) settings.setValue(QStringLiteral("panels"), saveState(kPanels));
}

void MainWindow::restore_view() {
  const QSettings settings;
  restoreGeometry(settings.value(QStringLiteral("geometry")).toByteArray());
  restoreState(settings.value(QStringLiteral("panels")).toByteArray(), kPanels);
}

}  // namespace zplan::gui
