#pragma once
// Editors of one option's value, whatever the option.

#include <QLineEdit>
#include <QWidget>

namespace zplan::gui {

/// Whether an edit is a step to undo by itself, or one with those before it in the same field.
enum class Step { own, continued };

/// Values are text as it stands on the command line; empty: the option is not given.
class ValueEditor : public QWidget {
  Q_OBJECT

 public:
  using QWidget::QWidget;

  /// Shows a value that comes from outside; emits nothing.
  virtual void show_value(const QString& value) = 0;
  /// Shows what holds where no value is given; may be empty.
  virtual void show_default(const QString& text) = 0;
  /// What keys go to: has the accessible name.
  [[nodiscard]] virtual QList<QWidget*> inputs() const = 0;
  /// Whether it needs the whole width, below its label.
  [[nodiscard]] virtual bool is_wide() const { return false; }
  /// Whether it has the label in itself.
  [[nodiscard]] virtual bool has_label() const { return false; }

 Q_SIGNALS:
  void edited(const QString& value, zplan::gui::Step step);
  /// What is edited from here on is a step of its own: a slider was taken.
  void began();
};

/// A line whose undo is the session's, where each key is a step of it, unless it is told to keep its own.
class FieldEdit : public QLineEdit {
  Q_OBJECT

 public:
  using QLineEdit::QLineEdit;
  /// Text from outside; cursor and what is typed stay where they agree with it.
  void show_text(const QString& text);
  /// Without blanks around it.
  [[nodiscard]] QString value() const { return text().trimmed(); }
  void keep_own_undo() { has_own_undo_ = true; }

 protected:
  bool event(QEvent* event) override;

 private:
  bool has_own_undo_{};
};

/// Lets the wheel scroll the panel where `input` does not have the focus.
void guard_wheel(QWidget* input);

}  // namespace zplan::gui
