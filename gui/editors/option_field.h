#pragma once
// One option of the panel: label, editor, a button that removes the option, and its error.

#include <QGridLayout>
#include <QLabel>
#include <QToolButton>

#include "cli/base/environment.h"
#include "cli/options/options.h"
#include "gui/editors/value_editor.h"

namespace zplan::gui {

class OptionField : public QWidget {
  Q_OBJECT

 public:
  /// The field is called as the option is: objectName "--seq".
  OptionField(const OptionSpec& spec, ValueEditor* editor, QWidget* parent = nullptr);

  /// Empty: not given.
  void show_value(const QString& value);
  /// `used`: what the answer was made with; empty: not known.
  void show_used(const QString& used);
  /// One line; empty: nothing is wrong.
  void show_problem(const QString& text);
  /// Why the option can do nothing as others stand; empty: it can.
  void show_idle(const QString& why);

  [[nodiscard]] const OptionSpec& spec() const { return spec_; }
  [[nodiscard]] QString option() const { return objectName(); }
  [[nodiscard]] bool is_given() const { return !value_.isEmpty(); }
  [[nodiscard]] bool is_idle() const { return !idle_.isEmpty(); }
  [[nodiscard]] bool has_problem() const { return !problem_.isEmpty(); }
  /// True if label, name or help contain every word.
  [[nodiscard]] bool matches(const QString& words) const;
  [[nodiscard]] ValueEditor* editor() const { return editor_; }
  [[nodiscard]] QToolButton* reset_button() const { return reset_; }
  [[nodiscard]] const MessageLine* message() const { return message_; }

 Q_SIGNALS:
  void edited(const QString& value, zplan::gui::Step step);
  void began();

 private:
  void lay_out();
  void name_inputs();
  void describe();
  void show_state();

  const OptionSpec& spec_;
  QString value_, problem_, idle_;
  QLabel* label_;
  ValueEditor* editor_;
  QToolButton* reset_;
  MessageLine* message_;
};

/// The option's label in the window's language: "Sequence length".
[[nodiscard]] QString option_label(const OptionSpec& spec);
/// One sentence: the option's help, or what its label says.
[[nodiscard]] QString option_help(const OptionSpec& spec);
/// "--seq S"
[[nodiscard]] QString option_usage(const OptionSpec& spec);
[[nodiscard]] QString group_label(std::string_view group);

/// A new editor of the option's values, by their type.
[[nodiscard]] ValueEditor* make_editor(const OptionSpec& spec, const Environment& environment);

}  // namespace zplan::gui
