#pragma once
// The right side of the window: every option that changes a plan, for the session's current scenario.

#include <QCheckBox>
#include <QScrollArea>
#include <map>

#include "gui/editors/scenario_heading.h"
#include "gui/editors/section.h"
#include "gui/session/session.h"

namespace zplan::gui {

class EditorPanel : public QWidget {
  Q_OBJECT

 public:
  /// The session must outlive it.
  explicit EditorPanel(Session& session, QWidget* parent = nullptr);
  ~EditorPanel() override;
  EditorPanel(const EditorPanel&) = delete;
  EditorPanel& operator=(const EditorPanel&) = delete;

  /// Returns the field of an option such as "--seq"; null where there is none.
  [[nodiscard]] OptionField* field(const QString& option) const;
  [[nodiscard]] const std::vector<OptionField*>& fields() const { return fields_; }
  /// Unfolds what hides the option, scrolls to it and gives it the focus.
  void show_option(const QString& option);

 private:
  void build();
  void add_section(const QString& title, std::string_view group);
  void apply(const QString& option, const QString& value, Step step);
  void on_changed(int row);
  void refresh();
  void show_values(const Session::Entry& entry);
  void show_answer(const Session::Entry& entry);
  void show_problem(const Session::Entry& entry);
  void show_fields();

  Session& session_;
  ScenarioHeading* heading_;
  FieldEdit* find_;
  QCheckBox* given_only_;
  MessageLine* message_;
  QScrollArea* scroll_;
  QWidget* content_;
  std::vector<Section*> sections_;
  std::vector<OptionField*> fields_;
  quint64 edit_{};   ///< continued edits with one such number are one step to undo
  bool applying_{};  ///< the change that comes is this panel's own
};

}  // namespace zplan::gui
