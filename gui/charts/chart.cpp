#include "gui/charts/chart.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>

#include "gui/charts/ink.h"
#include "gui/session/plain_tips.h"

namespace zplan::gui {

Chart::Chart(int least_lines, QWidget* parent) : QAbstractScrollArea(parent), least_lines_(least_lines) {
  setFrameShape(QFrame::NoFrame);
  setFocusPolicy(Qt::StrongFocus);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  viewport()->setMouseTracking(true);
  viewport()->setBackgroundRole(QPalette::Base);
  viewport()->setAutoFillBackground(true);
}

void Chart::set_model(QAbstractItemModel* model) {
  if (model == model_) return;
  if (model_ != nullptr) model_->disconnect(this);
  model_ = model;
  if (model_ != nullptr) {
    connect(model_, &QAbstractItemModel::modelReset, this, &Chart::renew);
    connect(model_, &QAbstractItemModel::dataChanged, this, &Chart::renew);
    connect(model_, &QAbstractItemModel::headerDataChanged, this, &Chart::renew);
    connect(model_, &QAbstractItemModel::layoutChanged, this, &Chart::renew);
    connect(model_, &QAbstractItemModel::rowsInserted, this, &Chart::renew);
    connect(model_, &QAbstractItemModel::rowsRemoved, this, &Chart::renew);
    connect(model_, &QAbstractItemModel::rowsMoved, this, &Chart::renew);
    connect(model_, &QObject::destroyed, this, &Chart::renew);
  }
  renew();
}

void Chart::renew() {
  const int before = current_;
  current_ = std::min(current_, rows() - 1);
  hovered_ = hovered_column_ = -1;
  arrange();
  describe();
  updateGeometry();
  viewport()->update();
  if (current_ != before) Q_EMIT current_changed(current_);
}

void Chart::set_current(int row) {
  row = std::clamp(row, -1, rows() - 1);
  if (row == current_) return;
  current_ = row;
  describe();
  viewport()->update();
  Q_EMIT current_changed(row);
}

void Chart::set_part(int part) {
  part_ = part;
  describe();
  viewport()->update();
}

QModelIndex Chart::spoken_index(int row) const {
  return model_ == nullptr || row < 0 ? QModelIndex() : model_->index(row, model_->columnCount() - 1);
}

void Chart::describe() {
  QString all = rows() == 0 ? tr("Nothing to show") : summary();
  const QModelIndex index = spoken_index(current_);
  if (index.isValid()) all += '\n' + tr("Current: %1").arg(index.data(Qt::AccessibleTextRole).toString());
  setAccessibleDescription(all);
}

QVariant Chart::value(int row, int column, int role) const { return model_->index(row, column).data(role); }

Chart::View Chart::view() const {
  return {current_, hovered_,   hovered_column_,
          part_,    hasFocus(), static_cast<double>(verticalScrollBar()->value())};
}

QSize Chart::size_of(int characters, int lines) const {
  const QFontMetricsF metrics(font(), this);
  return {static_cast<int>(metrics.averageCharWidth() * characters),
          static_cast<int>(metrics.height() * lines)};
}

QSize Chart::minimumSizeHint() const { return size_of(45, least_lines_); }

QSize Chart::sizeHint() const { return picture_size().boundedTo(QSize(760, 330)); }

void Chart::paint(QPainter& painter, const QRectF& area, const QPalette& palette) const {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  if (rows() == 0)
    draw_nothing(painter, area, palette);
  else
    draw(painter, area, palette, View{});
  painter.restore();
}

void Chart::draw_nothing(QPainter& painter, const QRectF& area, const QPalette& palette) {
  painter.setPen(ink::faint(palette));
  painter.drawText(area, static_cast<int>(Qt::AlignCenter) | Qt::TextWordWrap, tr("Nothing to show"));
}

void Chart::paintEvent(QPaintEvent*) {
  QPainter painter(viewport());
  painter.setFont(font());
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF area(viewport()->rect());
  if (rows() == 0)
    draw_nothing(painter, area, palette());
  else
    draw(painter, area, palette(), view());
  if (!hasFocus() || current_ >= 0) return;
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(palette().color(QPalette::Highlight), 1.5));
  painter.drawRect(area.adjusted(1, 1, -1, -1));
}

void Chart::resizeEvent(QResizeEvent* event) {
  QAbstractScrollArea::resizeEvent(event);
  arrange();
}

void Chart::scrollContentsBy(int, int) { viewport()->update(); }

void Chart::changeEvent(QEvent* event) {
  QAbstractScrollArea::changeEvent(event);
  if (event->type() != QEvent::FontChange && event->type() != QEvent::LanguageChange) return;
  arrange();
  if (event->type() == QEvent::LanguageChange) describe();
  updateGeometry();
}

void Chart::focusInEvent(QFocusEvent* event) {
  QAbstractScrollArea::focusInEvent(event);
  // The keyboard focus needs a current row, or the first key would seem to do nothing.
  const bool by_keys = event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason;
  if (by_keys && current_ < 0) set_current(0);
  viewport()->update();
}

void Chart::focusOutEvent(QFocusEvent* event) {
  QAbstractScrollArea::focusOutEvent(event);
  viewport()->update();
}

void Chart::keyPressEvent(QKeyEvent* event) {
  const int key = event->key();
  if (rows() == 0) return event->ignore();
  if ((key == Qt::Key_Return || key == Qt::Key_Enter) && current_ >= 0) return activate(current_);
  if (key == Qt::Key_Space && current_ >= 0) {
    const QModelIndex index = spoken_index(current_);
    return show_tip(viewport()->mapToGlobal(place_of(index).center().toPoint()), index);
  }
  if (event->modifiers() & ~(Qt::KeypadModifier | Qt::ShiftModifier)) return event->ignore();
  if (const int row = moved(current_, key); row >= 0) return set_current(std::min(row, rows() - 1));
  event->ignore();
}

void Chart::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return event->ignore();
  const QModelIndex index = index_at(event->position());
  if (!index.isValid()) return;
  set_current(index.row());
  if (is_link()) activate(index.row());
}

void Chart::mouseReleaseEvent(QMouseEvent* event) { event->setAccepted(event->button() == Qt::LeftButton); }

void Chart::mouseDoubleClickEvent(QMouseEvent* event) {
  const QModelIndex index = index_at(event->position());
  if (event->button() == Qt::LeftButton && index.isValid() && !is_link()) activate(index.row());
}

void Chart::mouseMoveEvent(QMouseEvent* event) { hover(index_at(event->position())); }

void Chart::hover(const QModelIndex& index) {
  const int row = index.isValid() ? index.row() : -1, column = index.isValid() ? index.column() : -1;
  if (row == hovered_ && column == hovered_column_) return;
  hovered_ = row, hovered_column_ = column;
  viewport()->update();
}

void Chart::show_tip(const QPoint& global, const QModelIndex& index) {
  const QString tip = index.data(Qt::ToolTipRole).toString();
  if (tip.isEmpty())
    QToolTip::hideText();
  else
    QToolTip::showText(global, plain_tip(tip), viewport());
}

bool Chart::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    show_tip(help->globalPos(), index_at(QPointF(help->pos())));
    return true;
  }
  if (event->type() == QEvent::Leave) hover({});
  return QAbstractScrollArea::viewportEvent(event);
}

}  // namespace zplan::gui
