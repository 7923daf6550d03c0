#pragma once

#include <QMainWindow>
#include <QPointer>
#include <functional>
#include <memory>

#include "gui/output/export.h"
#include "gui/output/picture.h"
#include "gui/session/documents.h"
#include "gui/session/kept_session.h"
#include "gui/session/session.h"
#include "gui/window/message_bar.h"
#include "gui/window/start_page.h"

class QListView;
class QMenu;
class QStackedWidget;

namespace zplan::gui {

class Chart;
class ComparisonView;
class HelpWindow;
class ScenarioListModel;

/// Questions to the user; tests replace the dialogs.
struct Dialogs {
  std::function<QString(const QString& title, const QString& name_filter)>
      file_to_open;  ///< empty: cancelled
  std::function<QString(const QString& title, const QString& suggested, const QString& name_filter)>
      file_to_write;
  enum class Decision { save, discard, cancel };
  std::function<Decision(const QString& question)> unsaved_changes;
};

/// The window: scenarios on the left, their plans in the middle, their options on the right.
class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  /// `kept`: folder in which the session is saved while it changes; empty: it is not saved.
  explicit MainWindow(const Environment& environment, const QString& kept = {}, QWidget* parent = nullptr);
  ~MainWindow() override;
  MainWindow(const MainWindow&) = delete;
  MainWindow& operator=(const MainWindow&) = delete;

  /// Opens what the program was started with: files, or the options of a question; else the saved session.
  /// Where there is none, shows the start page with `asks`, else an example.
  void start(const QStringList& words, bool asks = false);

  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] Documents& documents() { return documents_; }
  [[nodiscard]] ComparisonView& view() { return *view_; }
  [[nodiscard]] QString message() const;
  /// Returns the pages to print.
  [[nodiscard]] Pages pages() const;
  Dialogs dialogs;

 protected:
  void closeEvent(QCloseEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  struct Command {
    const char* name;  ///< the action's object name, used by tests
    QString text;
    QKeySequence keys;
    QString tip;
    void (MainWindow::*run)();
  };
  QAction* add_action(QMenu* menu, const Command& command);
  void build_panels();
  void build_middle();
  void build_menus();
  void build_file_menu();
  void build_export_menu(QMenu* menu);
  void build_edit_menu();
  void build_compare_menu();
  void build_view_menu();
  void build_help_menu();
  void update_actions();
  void update_title();
  void fill_recent();
  void show_row();
  void save_view();
  void restore_view();
  void show_start_page();
  void leave_start_page();
  [[nodiscard]] bool is_starting() const { return start_page_ != nullptr; }

  void add_scenario();
  void duplicate_scenario();
  void rename_scenario();
  void delete_scenario();
  void move_up();
  void move_down();
  void pin_baseline();
  void unpin_baseline();
  void new_session();
  void open_session();
  void add_files();
  bool save();
  bool save_as();
  void save_now();
  void save_elsewhere();
  void restore_previous();
  void export_chart();
  void export_comparison();
  void export_report();
  void export_snapshot();
  void export_trace();
  void export_page();
  void export_plan(ExportedFile file, const QString& title, const QString& suggested, const QString& filter);
  void print();
  void copy_table();
  void copy_command();
  void show_help();
  void show_shortcuts();
  void show_about();
  [[nodiscard]] Compared compared() const;
  [[nodiscard]] bool may_go_out(const Compared& all);
  /// Returns the answer of the current scenario; null, with a message, while there is none.
  [[nodiscard]] PlannedPtr whole_answer();
  [[nodiscard]] Picture picture_of(Chart& chart, const QPalette& palette) const;
  void report_written(const QString& path, const QString& problem);
  [[nodiscard]] bool may_leave();
  void say(const QString& message);
  void show_measurements(const QString& path);
  void set_language(const QString& language);

  Session session_;
  Documents documents_;
  std::unique_ptr<KeptSession> kept_;
  ScenarioListModel* scenarios_;
  QListView* list_;
  ComparisonView* view_;
  MessageBar* message_;
  QStackedWidget* middle_{};
  QPointer<StartPage> start_page_;
  QList<QWidget*> hidden_;  ///< panels and bars that come back when the start page goes
  QMenu* recent_{};
  QPointer<HelpWindow> help_;
};

}  // namespace zplan::gui
