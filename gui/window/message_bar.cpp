#include "gui/window/message_bar.h"

#include <QAccessible>
#include <QHBoxLayout>
#include <QLabel>
#include <QStyle>
#include <QToolButton>

#include "gui/output/text_label.h"

namespace zplan::gui {

MessageBar::MessageBar(QWidget* parent) : QFrame(parent), text_(text_label(this)) {
  setObjectName(QStringLiteral("message"));
  setFrameShape(QFrame::StyledPanel);
  setAccessibleName(tr("Message"));
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(8, 4, 4, 4);
  auto* sign = new QLabel(this);
  const int side = style()->pixelMetric(QStyle::PM_SmallIconSize);
  sign->setPixmap(style()->standardIcon(QStyle::SP_MessageBoxWarning).pixmap(side, side));
  auto* close = new QToolButton(this);
  close->setText(tr("Close"));
  close->setAccessibleName(tr("Close the message"));
  close->setAutoRaise(true);
  row->addWidget(sign);
  row->addWidget(text_, 1);
  row->addWidget(close);
  connect(close, &QToolButton::clicked, this, &QWidget::hide);
  hide();
}

void MessageBar::show_message(const QString& text) {
  text_->setText(text);
  setVisible(!text.isEmpty());
  if (text.isEmpty()) return;
  setAccessibleDescription(text);
  QAccessibleEvent event(this, QAccessible::Alert);
  QAccessible::updateAccessibility(&event);
}

QString MessageBar::text() const { return isHidden() ? QString() : text_->text(); }

}  // namespace zplan::gui
