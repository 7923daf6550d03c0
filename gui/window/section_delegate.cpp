#include "gui/window/section_delegate.h"

#include <QPainter>

#include "gui/charts/ink.h"

namespace zplan::gui {

void SectionDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option,
                            const QModelIndex& index) const {
  QStyledItemDelegate::paint(painter, option, index);
  if (index.row() == 0 || index.data(role_) == index.siblingAtRow(index.row() - 1).data(role_)) return;
  painter->save();
  painter->setPen(ink::faint(option.palette));
  painter->drawLine(option.rect.topLeft(), option.rect.topRight());
  painter->restore();
}

}  // namespace zplan::gui
