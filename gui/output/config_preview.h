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

/// A plan's config as `zplan --emit` writes it, with notes, launch commands and findings.
struct ConfigContent {
  struct Command {
    QString launcher, line;
  };
  QString file;                   ///< name of the file: "ds_config.json"
  QString text;                   ///< empty: no config
  QString none;                   ///< why there is no config
  QStringList notes;              ///< settings that the config cannot express
  std::vector<Command> commands;  ///< command lines that launch the plan
  bool linted{};                  ///< true for DeepSpeed's configs
  std::vector<Finding> findings;
};
[[nodiscard]] ConfigContent config_of(const Planned& planned);

/// Returns one row per finding: level, line, key, and what is wrong, its effect and the remedy.
[[nodiscard]] Table findings_table(const std::vector<Finding>& findings);

/// Shows the config of a plan, to read, copy and save. Made only when it is visible.
class ConfigPreview : public QWidget {
  Q_OBJECT

 public:
  explicit ConfigPreview(QWidget* parent = nullptr);
  void show_plan(PlannedPtr planned);

  [[nodiscard]] const ConfigContent& content() const { return content_; }
  /// Asks for the file to save to; returns an empty name to cancel.
  std::function<QString()> ask_file;
  void save();
  void copy();

 Q_SIGNALS:
  /// The user chose this value of --config-style.
  void style_wanted(const QString& style);
  /// A text for the status line: what was done, or why not.
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
