#include "gui/session/plain_tips.h"

#include <QAbstractItemView>
#include <QHeaderView>
#include <QHelpEvent>
#include <QTextDocument>
#include <QToolButton>
#include <QToolTip>

namespace zplan::gui {

namespace {

/// Returns the tooltip of a button that shows an action, which may name what others named; of a table, a list
/// or a heading at a place. None of other widgets.
QString tip_at(const QObject* viewport, const QPoint& place) {
  if (const auto* button = qobject_cast<const QToolButton*>(viewport)) return button->toolTip();
  if (const auto* heading = qobject_cast<const QHeaderView*>(viewport->parent()); heading != nullptr)
    return heading->model() == nullptr
               ? QString()
               : heading->model()
                     ->headerData(heading->logicalIndexAt(place), heading->orientation(), Qt::ToolTipRole)
                     .toString();
  const auto* view = qobject_cast<const QAbstractItemView*>(viewport->parent());
  return view == nullptr ? QString() : view->indexAt(place).data(Qt::ToolTipRole).toString();
}

}  // namespace

QString plain_tip(const QString& text) {
  if (!Qt::mightBeRichText(text)) return text;
  return QStringLiteral("<p style='white-space:pre-wrap'>%1</p>").arg(text.toHtmlEscaped());
}

bool PlainTips::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::ToolTip) return false;
  const auto* help = static_cast<QHelpEvent*>(event);
  const QString tip = tip_at(watched, help->pos());
  if (!Qt::mightBeRichText(tip)) return false;
  QToolTip::showText(help->globalPos(), plain_tip(tip), qobject_cast<QWidget*>(watched));
  return true;
}

}  // namespace zplan::gui
