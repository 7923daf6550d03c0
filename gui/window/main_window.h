#pragma once

#include <QFrame>
#include <QMainWindow>
#include <QPointer>
#include <functional>
#include <memory>

#include "gui/output/export.h"
#include "gui/output/picture.h"
#include "gui/session/documents.h"
#include "gui/session/kept_session.h"
#include "gui/session/session.h"

class QLabel;
class QListView;
class QMenu;

namespace zplan::gui {

/// A message across the window. It stays until the user closes it or another one replaces it.
class MessageBar : public QFrame {
  Q_OBJECT

 public:
  explicit MessageBar(QWidget* parent = nullptr);
  void show_message(const QString& text);
  [[nodiscard]] QString text() const;

 private:
  QLabel* text_;
};

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

  /// Opens what the program was started with: files, or the options of a question; else the saved session or,
  /// the first time, an example.
  void start(const QStringList& words);

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
  void build_menus();
  void build_file_menu();
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
  void print();
  void copy_table();
  void copy_command();
  void show_help();
  void show_shortcuts();
  void show_about();
  [[nodiscard]] Compared compared() const;
  [[nodiscard]] bool may_go_out(const Compared& all);
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
  QMenu* recent_{};
  QPointer<HelpWindow> help_;
};

/// Returns the example that the window starts with: the README's question.
[[nodiscard]] Scenario first_scenario();

}  // namespace zplan::gui
