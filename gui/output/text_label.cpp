#include "gui/output/text_label.h"

#include <QLabel>

namespace zplan::gui {

QLabel* text_label(QWidget* parent) {
  auto* label = new QLabel(parent);
  label->setWordWrap(true);
  label->setTextFormat(Qt::PlainText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  return label;
}

QFont heading_font(QFont font, double size) {
  if (font.pixelSize() > 0)
    font.setPixelSize(qRound(font.pixelSize() * size));
  else
    font.setPointSizeF(font.pointSizeF() * size);
  font.setBold(true);
  return font;
}

}  // namespace zplan::gui
