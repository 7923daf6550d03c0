#include "gui/editors/value_editor.h"

#include <QKeyEvent>
#include <QSignalBlocker>

namespace zplan::gui {

namespace {

class WheelGuard : public QObject {
 public:
  using QObject::QObject;
  bool eventFilter(QObject* watched, QEvent* event) override {
    const auto* input = qobject_cast<QWidget*>(watched);
    if (event->type() != QEvent::Wheel || input == nullptr || input->hasFocus()) return false;
    event->ignore();  // goes on to the scroll area
    return true;
  }
};

}  // namespace

void FieldEdit::show_text(const QString& shown) {
  if (value() == shown) return;
  const QSignalBlocker blocker(this);
  const int cursor = cursorPosition();
  setText(shown);
  setCursorPosition(hasFocus() ? std::min(cursor, static_cast<int>(shown.size())) : 0);
}

bool FieldEdit::event(QEvent* event) {
  if (has_own_undo_) return QLineEdit::event(event);
  if (event->type() == QEvent::ShortcutOverride || event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->matches(QKeySequence::Undo) || key->matches(QKeySequence::Redo)) {
      event->ignore();
      return false;
    }
  }
  return QLineEdit::event(event);
}

void guard_wheel(QWidget* input) {
  input->setFocusPolicy(Qt::StrongFocus);
  input->installEventFilter(new WheelGuard(input));
}

}  // namespace zplan::gui
