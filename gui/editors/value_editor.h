#pragma once
// The base of editors of one option's value, a line edit for them, and a line for messages.

#include <QLabel>
#include <QLineEdit>
#include <QWidget>

namespace zplan::gui {

class MessageLine : public QWidget {
  Q_OBJECT

 public:
  explicit MessageLine(QWidget* parent = nullptr);
  void warn(const QString& text);
  void remark(const QString& text);
  [[nodiscard]] QString text() const { return text_->text(); }

 private:
  void show_text(const QString& text, bool is_warning);

  QLabel* icon_;
  QLabel* text_;
  bool is_warning_{};
};

/// `own`: the edit is a step to undo by itself; `continued`: it joins the edits before it in the same field.
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
  /// Returns the widgets that take keys, which have the accessible name.
  [[nodiscard]] virtual QList<QWidget*> inputs() const = 0;
  /// True if the editor needs the whole width, below its label.
  [[nodiscard]] virtual bool is_wide() const { return false; }
  /// True if the editor shows the label itself.
  [[nodiscard]] virtual bool has_label() const { return false; }

 Q_SIGNALS:
  void edited(const QString& value, zplan::gui::Step step);
  /// Begins a new step to undo: a slider was pressed.
  void began();
};

/// A line edit that leaves undo to the session, unless keep_own_undo() is called.
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
