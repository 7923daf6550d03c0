#pragma once

#include <QWidget>
#include <functional>

#include "gui/session/planned.h"
#include "gui/tables/text_table_model.h"
#include "planner/frameworks/deepspeed/config/lint.h"

class QComboBox;
class QGridLayout;
class QLabel;
class QPlainTextEdit;
class QPushButton;
class QTableView;

namespace zplan::gui {

class JsonColours;

/// What `zplan --emit` writes for a plan, with all that is to be said of it.
struct ConfigContent {
  struct Command {
    QString launcher, line;
  };
  QString file;                   ///< what it is called: "ds_config.json"
  QString text;                   ///< empty: there is none
  QString none;                   ///< why there is none
  QStringList notes;              ///< what the config cannot say
  std::vector<Command> commands;  ///< lines that start the plan
  bool linted{};                  ///< only DeepSpeed's configs are
  std::vector<Finding> findings;
};
[[nodiscard]] ConfigContent config_of(const Planned& planned);

/// Findings as rows: level, line, place, and what is wrong with what it does and what to write instead.
[[nodiscard]] Table findings_table(const std::vector<Finding>& findings);

/// The shown plan's config: read, copied, saved; made where it can be seen, and not before.
class ConfigPreview : public QWidget {
  Q_OBJECT

 public:
  explicit ConfigPreview(QWidget* parent = nullptr);
  void show_plan(PlannedPtr planned);

  [[nodiscard]] const ConfigContent& content() const { return content_; }
  /// Asks for the file to save to; empty: none.
  std::function<QString()> ask_file;
  void save();
  void copy();

 Q_SIGNALS:
  /// --config-style is to be this.
  void style_wanted(const QString& style);
  /// What was done, or why not: for a status line.
  void said(const QString& text);

 protected:
  void showEvent(QShowEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void refresh();
  void show_commands();
  void show_findings();
  void go_to(int finding);
  [[nodiscard]] QWidget* make_bar();
  [[nodiscard]] QWidget* make_remarks();

  PlannedPtr planned_;
  bool stale_{};
  ConfigContent content_;
  TextTableModel findings_;
  QLabel *title_{}, *notes_{}, *found_{}, *said_{};
  QComboBox* style_{};
  QPushButton *copy_{}, *save_{};
  QPlainTextEdit* text_{};
  JsonColours* colours_{};
  QWidget* commands_{};
  QTableView* findings_view_{};
};

}  // namespace zplan::gui
