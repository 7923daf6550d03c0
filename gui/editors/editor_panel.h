#pragma once
// The right side of the window: the options of the session's current scenario, the common ones first.

#include <QScrollArea>
#include <QTabBar>

#include "gui/editors/scenario_heading.h"
#include "gui/editors/section.h"
#include "gui/session/session.h"

namespace zplan::gui {

class EditorPanel : public QWidget {
  Q_OBJECT

 public:
  /// Which options are shown while none is looked for, in the order of the tabs.
  enum class Page {
    common,  ///< those of the first page of --help that apply, and whatever is set
    given,   ///< those that the scenario sets
    all      ///< every one; those that do not apply are disabled, with the reason
  };

  /// The session must outlive it.
  explicit EditorPanel(Session& session, QWidget* parent = nullptr);
  ~EditorPanel() override;
  EditorPanel(const EditorPanel&) = delete;
  EditorPanel& operator=(const EditorPanel&) = delete;

  /// Returns the field of an option such as "--seq"; null where there is none.
  [[nodiscard]] OptionField* field(const QString& option) const;
  [[nodiscard]] const std::vector<OptionField*>& fields() const { return fields_; }
  void set_page(Page page) { pages_->setCurrentIndex(static_cast<int>(page)); }
  [[nodiscard]] Page page() const { return static_cast<Page>(pages_->currentIndex()); }
  /// Unfolds what hides the option, scrolls to it and gives it the focus.
  void show_option(const QString& option);

 private:
  void build();
  void build_pages();
  void add_section(const QString& title, std::string_view group);
  void apply(const QString& option, const QString& value, Step step);
  void on_changed(int row);
  void refresh();
  void show_values(const Session::Entry& entry);
  void show_answer(const Session::Entry& entry);
  void show_problem(const Session::Entry& entry);
  void show_fields();
  void show_count();
  [[nodiscard]] bool is_on_page(const OptionField& field) const;

  Session& session_;
  ScenarioHeading* heading_;
  FieldEdit* find_;
  QTabBar* pages_;
  MessageLine* message_;
  QScrollArea* scroll_;
  QWidget* content_;
  std::vector<Section*> sections_;
  std::vector<OptionField*> fields_;
  quint64 edit_{};   ///< continued edits with one such number are one step to undo
  bool applying_{};  ///< the change that comes is this panel's own
};

}  // namespace zplan::gui
