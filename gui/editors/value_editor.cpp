#include "gui/editors/value_editor.h"

#include <QAccessible>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QSignalBlocker>
#include <QStyle>

namespace zplan::gui {

MessageLine::MessageLine(QWidget* parent)
    : QWidget(parent), icon_(new QLabel(this)), text_(new QLabel(this)) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 2);
  row->addWidget(icon_, 0, Qt::AlignTop);
  row->addWidget(text_, 1);
  text_->setWordWrap(true);
  text_->setTextFormat(Qt::PlainText);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  QSizePolicy policy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  policy.setHeightForWidth(true);
  text_->setSizePolicy(policy);
  hide();
}

void MessageLine::warn(const QString& text) { show_text(text, true); }
void MessageLine::remark(const QString& text) { show_text(text, false); }

void MessageLine::show_text(const QString& text, bool is_warning) {
  setVisible(!text.isEmpty());
  if (text_->text() == text && is_warning_ == is_warning) return;
  is_warning_ = is_warning;
  const auto icon = is_warning ? QStyle::SP_MessageBoxWarning : QStyle::SP_MessageBoxInformation;
  const int size = style()->pixelMetric(QStyle::PM_SmallIconSize);
  icon_->setPixmap(style()->standardIcon(icon).pixmap(QSize(size, size), devicePixelRatioF()));
  icon_->setAccessibleName(is_warning ? tr("Problem") : tr("Remark"));
  text_->setText(text);
  setAccessibleName(text);
  if (text.isEmpty() || !is_warning) return;
  QAccessibleEvent alert(this, QAccessible::Alert);
  QAccessible::updateAccessibility(&alert);
}

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
