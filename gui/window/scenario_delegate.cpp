#include "gui/window/scenario_delegate.h"

#include <QApplication>
#include <QPainter>
#include <utility>

#include "gui/charts/ink.h"
#include "gui/tables/scenario_list_model.h"

namespace zplan::gui {

namespace {

constexpr int kGap = 4;

/// The upper line, where tick and name are; the style draws them as in any list.
QStyleOptionViewItem upper_line(const QStyleOptionViewItem& option) {
  QStyleOptionViewItem upper = option;
  upper.rect.setHeight(option.fontMetrics.height() + 2 * kGap);
  return upper;
}

/// What stands behind the name of the baseline: a sign and, where there is memory, a word.
struct Mark {
  bool shown{};
  QString word;
  QFontMetrics metrics;

  [[nodiscard]] int side() const { return metrics.ascent(); }
  [[nodiscard]] int width() const {
    if (!shown) return 0;
    return 2 * kGap + side() + (word.isEmpty() ? 0 : kGap + metrics.horizontalAdvance(word));
  }
  void paint(QPainter& painter, const QRect& room) const {
    if (!shown) return;
    const QRect sign(room.left() + 2 * kGap, room.center().y() - side() / 2, side(), side());
    ink::aim(painter, sign, painter.pen().color());
    painter.drawText(QRect(QPoint(sign.right() + kGap, room.top()), room.bottomRight()),
                     Qt::AlignLeft | Qt::AlignVCenter, word);
  }
};

}  // namespace

QSize ScenarioDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  const QSize one = QStyledItemDelegate::sizeHint(option, index);
  return {one.width(), 2 * option.fontMetrics.height() + 3 * kGap};
}

void ScenarioDelegate::updateEditorGeometry(QWidget* editor, const QStyleOptionViewItem& option,
                                            const QModelIndex& index) const {
  QStyledItemDelegate::updateEditorGeometry(editor, upper_line(option), index);
}

/// The tick is on the upper line, for clicks too.
bool ScenarioDelegate::editorEvent(QEvent* event, QAbstractItemModel* model,
                                   const QStyleOptionViewItem& option, const QModelIndex& index) {
  return QStyledItemDelegate::editorEvent(event, model, upper_line(option), index);
}

void ScenarioDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option,
                             const QModelIndex& index) const {
  const QStyle& style = option.widget != nullptr ? *option.widget->style() : *QApplication::style();
  style.drawPrimitive(QStyle::PE_PanelItemViewItem, &option, painter, option.widget);

  QStyleOptionViewItem name = upper_line(option);
  initStyleOption(&name, index);
  name.font.setBold(option.state.testFlag(QStyle::State_Selected));
  const bool selected = option.state.testFlag(QStyle::State_Selected);
  const QColor pen = option.palette.color(selected ? QPalette::HighlightedText : QPalette::Text);
  const QRect text = style.subElementRect(QStyle::SE_ItemViewItemText, &name, option.widget);
  const QString title = std::exchange(name.text, QString());
  // The panel is drawn already, over both lines; the tick is in colours of its own.
  name.state &= ~(QStyle::State_Selected | QStyle::State_HasFocus);
  name.backgroundBrush = {};
  style.drawControl(QStyle::CE_ItemViewItem, &name, painter, option.widget);
  painter->save();
  painter->setFont(name.font);
  painter->setPen(pen);
  QRect room(text.left() + 3, name.rect.top(), option.rect.right() - text.left() - 2 * kGap,
             name.rect.height());
  const QFontMetrics metrics(name.font);
  const bool is_baseline = index.data(ScenarioListModel::BaselineRole).toBool();
  Mark mark{is_baseline, tr("baseline"), metrics};
  if (metrics.horizontalAdvance(title) + mark.width() > room.width()) mark.word.clear();
  const QString shown = metrics.elidedText(title, Qt::ElideRight, room.width() - mark.width());
  painter->drawText(room, Qt::AlignLeft | Qt::AlignVCenter, shown);
  room.setLeft(room.left() + metrics.horizontalAdvance(shown));
  mark.paint(*painter, room);
  painter->restore();

  QRect lower(text.left() + 3, name.rect.bottom() - 1, option.rect.right() - text.left() - kGap,
              option.fontMetrics.height() + kGap);
  QPalette palette = option.palette;
  if (selected) palette.setColor(QPalette::Base, palette.color(QPalette::Highlight));
  painter->save();
  if (!index.data(ScenarioListModel::FitsRole).toBool()) {
    const int side = option.fontMetrics.ascent();
    const QRect sign(lower.left(), lower.center().y() - side / 2, side, side);
    ink::warn(*painter, sign, palette);
    lower.setLeft(sign.right() + kGap);
  }
  painter->setPen(selected ? pen : ink::faint(palette));
  const QString summary = index.data(ScenarioListModel::SummaryRole).toString();
  painter->drawText(lower, Qt::AlignLeft | Qt::AlignVCenter,
                    option.fontMetrics.elidedText(summary, Qt::ElideRight, lower.width()));
  painter->restore();
}

}  // namespace zplan::gui
