#include "gui/editors/message_line.h"

#include <QAccessible>
#include <QHBoxLayout>
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

}  // namespace zplan::gui
