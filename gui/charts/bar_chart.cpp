#include "gui/charts/bar_chart.h"

#include <QKeyEvent>
#include <QPainter>
#include <QPainterPath>
#include <QScrollBar>
#include <algorithm>
#include <cmath>

#include "gui/charts/ink.h"
#include "gui/models/stack_model.h"

namespace zplan::gui {

namespace {

/// Draws a layout.
class Drawing {
 public:
  Drawing(QPainter& painter, const QAbstractItemModel& model, const BarLayout& layout,
          const QPalette& palette)
      : painter_(painter),
        model_(model),
        layout_(layout),
        palette_(palette),
        metrics_(painter.font(), painter.device()) {}

  void axis() const {
    const double line = metrics_.height();
    for (const Tick& tick : layout_.ticks) {
      const double x = layout_.x(tick.value);
      painter_.setPen(QPen(ink::grid(palette_), 1));
      painter_.drawLine(QPointF(x, layout_.plot.top()), QPointF(x, layout_.plot.bottom() + 3));
      painter_.setPen(ink::faint(palette_));
      painter_.drawText(QRectF(x - 100, layout_.plot.bottom() + 4, 200, line),
                        Qt::AlignHCenter | Qt::AlignTop, tick.text);
    }
  }

  void row(std::size_t at, bool highlighted, int column) const {
    const BarLayout::Row each = seen(layout_.rows[at]);
    if (highlighted && column < 0) painter_.fillRect(each.area, faintly());
    painter_.setPen(ink::text(palette_));
    painter_.drawText(each.label, Qt::AlignLeft | Qt::AlignVCenter,
                      metrics_.elidedText(title(at), Qt::ElideMiddle, each.label.width()));
    const bool draft = of(at, StackModel::DraftRole).toBool();
    for (const BarLayout::Segment& segment : each.segments) part(segment, draft, segment.column == column);
    ink::hatch(painter_, each.beyond, ink::Texture::rising, ink::text(palette_), 5);
    if (!each.beyond.isEmpty()) {
      painter_.setPen(QPen(ink::alarm(palette_), 1.6));
      painter_.setBrush(Qt::NoBrush);
      painter_.drawRect(each.beyond);
    }
    if (each.torn) tear(each.bar);
    for (const Limit& limit : each.limits) line_of(limit, each.bar.top() - 3, each.bar.bottom() + 3);
    total(at, each, draft);
  }

  /// Draws the figures, over the lines of limits.
  void figures(std::size_t at) const {
    const BarLayout::Row each = seen(layout_.rows[at]);
    const bool draft = of(at, StackModel::DraftRole).toBool();
    for (const BarLayout::Segment& segment : each.segments) figure(at, segment, draft, each);
  }

  void limits() const {
    for (const Limit& each : layout_.limits) {
      const double top = each.label.isEmpty() ? layout_.plot.top() : each.label.top() + 2;
      line_of(each, top, layout_.plot.bottom());
      if (each.label.isEmpty()) continue;
      painter_.setPen(each.mark.strong ? ink::text(palette_) : ink::faint(palette_));
      painter_.drawText(each.label, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextDontClip, each.text);
    }
  }

  void legend() const {
    for (const BarLayout::Entry& each : layout_.legend) {
      if (each.column >= 0)
        fill(each.sample, each.column, false);
      else
        line_of({each.mark, each.sample.center().x(), 0, {}, {}}, each.sample.top() - 1,
                each.sample.bottom() + 1);
      painter_.setPen(ink::text(palette_));
      painter_.drawText(each.text, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextDontClip, each.words);
    }
  }

  void current(std::size_t at, int column, bool focused) const {
    const BarLayout::Row row = seen(layout_.rows[at]);
    painter_.setBrush(Qt::NoBrush);
    painter_.setPen(QPen(ink::current(palette_, focused), 1.5));
    painter_.drawRoundedRect(row.area.adjusted(1.5, 1, -1.5, -1), 4, 4);
    for (const BarLayout::Segment& segment : row.segments)
      if (segment.column == column) outline(segment.box);
  }

 private:
  [[nodiscard]] QVariant of(std::size_t row, int role) const {
    return model_.index(static_cast<int>(row), model_.columnCount() - 1).data(role);
  }
  [[nodiscard]] QString title(std::size_t row) const {
    return model_.headerData(static_cast<int>(row), Qt::Vertical).toString();
  }
  /// Returns the row cut off at the end of the plot.
  [[nodiscard]] BarLayout::Row seen(BarLayout::Row row) const {
    if (!row.torn) return row;
    const auto cut = [this](QRectF& box) {
      box.setRight(std::clamp(box.right(), box.left(), layout_.plot.right()));
    };
    std::erase_if(row.segments, [this](const BarLayout::Segment& each) {
      return each.box.left() >= layout_.plot.right() - 1;
    });
    for (BarLayout::Segment& each : row.segments) cut(each.box);
    cut(row.bar), cut(row.beyond);
    return row;
  }

  /// Draws a jagged edge, which shows that the bar continues.
  void tear(const QRectF& bar) const {
    constexpr int kTeeth = 4;
    const double tooth = bar.height() / (2 * kTeeth);
    QPainterPath edge(bar.topRight() + QPointF(2, -1));
    for (int i = 0; i <= 2 * kTeeth; ++i)
      edge.lineTo(bar.right() - (i % 2 == 0 ? 0 : 1.4 * tooth), bar.top() + i * tooth);
    edge.lineTo(bar.bottomRight() + QPointF(2, 1));
    painter_.fillPath(edge, palette_.color(QPalette::Base));
  }

  [[nodiscard]] QColor faintly() const {
    return ink::mix(palette_.color(QPalette::Base), palette_.color(QPalette::Highlight), 0.1);
  }

  void fill(const QRectF& box, int column, bool draft) const {
    const QColor plain = ink::part(column, palette_);
    const QColor color = draft ? ink::draft(plain, palette_) : plain;
    painter_.fillRect(box, color);
    ink::hatch(painter_, box, ink::texture(column), ink::mix(color, ink::on(color, palette_), 0.4), 6);
  }

  void outline(const QRectF& box) const {
    painter_.setBrush(Qt::NoBrush);
    painter_.setPen(QPen(ink::text(palette_), 2));
    painter_.drawRect(box.adjusted(1, 1, -1, -1));
  }

  /// Returns the segment's box with a gap to the next one.
  [[nodiscard]] static QRectF box_of(const BarLayout::Segment& segment) {
    return segment.box.width() > 3 ? segment.box.adjusted(0, 0, -1, 0) : segment.box;
  }

  void part(const BarLayout::Segment& segment, bool draft, bool highlighted) const {
    fill(box_of(segment), segment.column, draft);
    if (highlighted) outline(box_of(segment));
  }

  /// Draws name and figure if there is room, else the figure alone, on plain ground.
  void figure(std::size_t row, const BarLayout::Segment& segment, bool draft,
              const BarLayout::Row& of_row) const {
    const QRectF box = box_of(segment);
    const QModelIndex index = model_.index(static_cast<int>(row), segment.column);
    const QString name = model_.headerData(segment.column, Qt::Horizontal).toString();
    const QString figure = index.data(StackModel::ValueTextRole).toString();
    for (const QString& text : {name + ' ' + figure, figure}) {
      const double width = metrics_.horizontalAdvance(text) + 6,
                   height = metrics_.tightBoundingRect(text).height();
      if (width > box.width() - 4 || height > box.height() - 2) continue;
      const QColor plain = ink::part(segment.column, palette_);
      const QColor color = draft ? ink::draft(plain, palette_) : plain;
      const double tall = std::min(box.height() - 2, metrics_.height());
      const QRectF behind(box.center().x() - width / 2, box.center().y() - tall / 2, width, tall);
      const auto crosses = [&behind](const Limit& limit) {
        return limit.x > behind.left() && limit.x < behind.right();
      };
      if (ink::texture(segment.column) != ink::Texture::none || of_row.beyond.intersects(behind) ||
          std::ranges::any_of(layout_.limits, crosses) || std::ranges::any_of(of_row.limits, crosses))
        painter_.fillRect(behind, color);
      painter_.setPen(ink::on(color, palette_));
      painter_.drawText(behind, Qt::AlignCenter | Qt::TextDontClip, text);
      return;
    }
  }

  void line_of(const Limit& limit, double top, double bottom) const {
    QPen pen = ink::limit(limit.mark.strong, palette_);
    pen.setCapStyle(Qt::FlatCap);
    painter_.setPen(pen);
    painter_.drawLine(QPointF(limit.x, top), QPointF(limit.x, bottom));
  }

  void total(std::size_t at, const BarLayout::Row& row, bool draft) const {
    QString text = of(at, StackModel::TotalTextRole).toString();
    if (draft) text = QStringLiteral("≈ ") + text;
    painter_.setPen(ink::text(palette_));
    if (!row.sign.isEmpty()) {
      ink::warn(painter_, row.sign, palette_);
      text += of(at, StackModel::NoteRole).toString();
      painter_.setPen(ink::alarm(palette_));
    }
    painter_.drawText(row.total, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextDontClip, text);
  }

  QPainter& painter_;
  const QAbstractItemModel& model_;
  const BarLayout& layout_;
  const QPalette& palette_;
  QFontMetricsF metrics_;
};

}  // namespace

BarChart::BarChart(QWidget* parent) : Chart(6, parent) { setAccessibleName(tr("Bar chart")); }

BarLayout BarChart::layout_now() const {
  if (model() == nullptr) return {};
  return bar_layout(*model(), QSizeF(viewport()->size()), QFontMetricsF(font(), this), view().scrolled);
}

QSize BarChart::picture_size() const {
  const QFontMetricsF metrics(font(), this);
  const double width = metrics.averageCharWidth() * 105;
  const double height = model() == nullptr ? 0 : whole_height(*model(), width, metrics);
  return {static_cast<int>(std::ceil(width)),
          static_cast<int>(std::ceil(std::max(height, metrics.height() * 8)))};
}

void BarChart::arrange() {
  // Independent of the scroll position, which may become invalid.
  verticalScrollBar()->setSingleStep(static_cast<int>(QFontMetricsF(font(), this).height()));
  const BarLayout layout =
      model() == nullptr ? BarLayout{}
                         : bar_layout(*model(), QSizeF(viewport()->size()), QFontMetricsF(font(), this));
  verticalScrollBar()->setPageStep(static_cast<int>(layout.plot.height()));
  verticalScrollBar()->setRange(0, static_cast<int>(std::ceil(layout.content - layout.plot.height())));
}

void BarChart::draw(QPainter& painter, const QRectF& area, const QPalette& palette, const View& view) const {
  const BarLayout layout =
      bar_layout(*model(), area.size(), QFontMetricsF(painter.font(), painter.device()), view.scrolled);
  const Drawing drawing(painter, *model(), layout, palette);
  painter.translate(area.topLeft());
  drawing.axis();
  painter.save();
  // On paper all rows are visible, and not every paint engine clips.
  const auto clip = [&] {
    if (layout.content > layout.plot.height() + 1)
      painter.setClipRect(QRectF(0, layout.plot.top(), area.width(), layout.plot.height()));
  };
  clip();
  for (std::size_t row = 0; row < layout.rows.size(); ++row) {
    const bool hovered = static_cast<int>(row) == view.hovered;
    const int column = hovered && view.hovered_column < model()->columnCount() - 1 ? view.hovered_column : -1;
    drawing.row(row, hovered, column);
  }
  if (view.current >= 0 && view.current < static_cast<int>(layout.rows.size()))
    drawing.current(static_cast<std::size_t>(view.current), view.part, view.focused);
  painter.restore();
  drawing.limits();
  painter.save();
  clip();
  for (std::size_t row = 0; row < layout.rows.size(); ++row) drawing.figures(row);
  painter.restore();
  drawing.legend();
}

QRectF BarChart::place_of(const QModelIndex& index) const {
  const BarLayout layout = layout_now();
  if (!index.isValid() || index.row() >= static_cast<int>(layout.rows.size())) return {};
  const BarLayout::Row& row = layout.rows[static_cast<std::size_t>(index.row())];
  for (const BarLayout::Segment& each : row.segments)
    if (each.column == index.column()) return each.box;
  return row.area;
}

QModelIndex BarChart::index_at(const QPointF& at) const {
  const BarLayout layout = layout_now();
  if (at.y() < layout.plot.top() || at.y() > layout.plot.bottom()) return {};
  for (std::size_t i = 0; i < layout.rows.size(); ++i) {
    if (!layout.rows[i].area.contains(at)) continue;
    for (const BarLayout::Segment& each : layout.rows[i].segments)
      if (each.box.contains(at)) return model()->index(static_cast<int>(i), each.column);
    return model()->index(static_cast<int>(i), model()->columnCount() - 1);
  }
  return {};
}

int BarChart::moved(int row, int key) const {
  const int page =
      std::max(1, static_cast<int>(verticalScrollBar()->pageStep() / layout_now().row_height) - 1);
  switch (key) {
    case Qt::Key_Up: return std::max(0, row - 1);
    case Qt::Key_Down: return row + 1;
    case Qt::Key_PageUp: return std::max(0, row - page);
    case Qt::Key_PageDown: return row + page;
    case Qt::Key_Home: return 0;
    case Qt::Key_End: return rows() - 1;
    default: return -1;
  }
}

void BarChart::keyPressEvent(QKeyEvent* event) {
  const int key = event->key();
  const bool sideways = key == Qt::Key_Left || key == Qt::Key_Right;
  if (!sideways || rows() == 0) {
    Chart::keyPressEvent(event);
    return show_current();
  }
  if (current() < 0) set_current(0);
  // The parts that the bar has, after the whole row (-1).
  std::vector<int> columns{-1};
  const BarLayout layout = layout_now();
  for (const BarLayout::Segment& each : layout.rows[static_cast<std::size_t>(current())].segments)
    columns.push_back(each.column);
  const auto at = std::lower_bound(columns.begin(), columns.end(), part());
  auto next = at == columns.end() ? columns.end() - 1 : at;
  if (key == Qt::Key_Right && next + 1 != columns.end()) ++next;
  if (key == Qt::Key_Left && next != columns.begin()) --next;
  set_part(*next);
}

void BarChart::show_current() {
  if (current() < 0) return;
  const BarLayout layout = layout_now();
  const QRectF row = layout.rows[static_cast<std::size_t>(current())].area;
  QScrollBar& bar = *verticalScrollBar();
  if (row.top() < layout.plot.top())
    bar.setValue(bar.value() - static_cast<int>(std::ceil(layout.plot.top() - row.top())));
  if (row.bottom() > layout.plot.bottom())
    bar.setValue(bar.value() + static_cast<int>(std::ceil(row.bottom() - layout.plot.bottom())));
}

QModelIndex BarChart::spoken_index(int row) const {
  const QModelIndex whole = Chart::spoken_index(row);
  return whole.isValid() && part() >= 0 && part() < whole.column() ? whole.siblingAtColumn(part()) : whole;
}

void BarChart::activate(int row) { Q_EMIT activated(row); }

QString BarChart::summary() const {
  QStringList all;
  for (int row = 0; row < rows(); ++row)
    all << value(row, model()->columnCount() - 1, Qt::AccessibleTextRole).toString();
  return all.join('\n');
}

}  // namespace zplan::gui
