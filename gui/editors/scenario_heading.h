#pragma once
// The heading above the options: the scenario's name and its shown plan.

#include <QComboBox>

#include "gui/editors/value_editor.h"
#include "gui/session/session.h"

namespace zplan::gui {

class ScenarioHeading : public QWidget {
  Q_OBJECT

 public:
  explicit ScenarioHeading(Session& session, QWidget* parent = nullptr);
  /// Shows the current scenario.
  void refresh();
  [[nodiscard]] FieldEdit* name() const { return name_; }
  [[nodiscard]] QComboBox* strategy() const { return strategy_; }

 private:
  void apply_name();
  void show_name(const Session::Entry& entry);
  void show_strategies(const Session::Entry& entry);

  Session& session_;
  Session::Id shown_{};  ///< whose name is in the field
  FieldEdit* name_;
  QComboBox* strategy_;
};

}  // namespace zplan::gui
