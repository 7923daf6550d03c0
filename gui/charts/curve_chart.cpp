#include "gui/charts/curve_chart.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/charts/ink.h"
#include "gui/models/timeline_model.h"

namespace zplan::gui {

namespace {

constexpr double kMargin = 8;
/// Largest share of the width for titles at the right.
constexpr double kMostForTitles = 0.28;

class Layout {
 public:
  Layout(const QAbstractItemModel& model, const QSizeF& size, const QFontMetricsF& metrics, int current)
      : model_(model), metrics_(metrics), size_(size), line_(metrics.height()), current_(current) {}

  CurveLayout make() {
    if (model_.rowCount() == 0) return out_;
    find_curves();
    set_plot();
    for (CurveLayout::Curve& each : out_.curves) set_points(each);
    set_labels();
    set_phases();
    set_limits();
    return out_;
  }

 private:
  [[nodiscard]] QVariant of(int row, int role) const { return model_.index(row, 0).data(role); }
  [[nodiscard]] QVector<Mark> marks(const CurveLayout::Curve& curve) const {
    return of(curve.first, TimelineModel::MarksRole).value<QVector<Mark>>();
  }

  void find_curves() {
    for (int row = 0; row < model_.rowCount(); ++row) {
      const int subject = of(row, TimelineModel::SubjectRole).toInt();
      if (out_.curves.empty() || out_.curves.back().subject != subject) {
        CurveLayout::Curve curve;
        curve.subject = subject, curve.first = row;
        curve.title = of(row, TimelineModel::TitleRole).toString();
        curve.draft = of(row, TimelineModel::DraftRole).toBool();
        out_.curves.push_back(curve);
      }
      CurveLayout::Curve& curve = out_.curves.back();
      curve.last = row;
      highest_ = std::max(highest_, of(row, TimelineModel::BytesRole).toDouble());
      if (of(row, TimelineModel::PeakRole).toBool())
        curve.text = of(row, TimelineModel::ValueTextRole).toString();
    }
  }

  void set_plot() {
    shared_ = std::all_of(out_.curves.begin(), out_.curves.end(),
                          [this](const auto& each) { return marks(each) == marks(out_.curves.front()); });
    double titles = 0;
    out_.most = highest_;
    for (const CurveLayout::Curve& each : out_.curves) {
      titles =
          std::max({titles, metrics_.horizontalAdvance(each.title), metrics_.horizontalAdvance(each.text)});
      // The deciding limit is always visible; others only if a curve exceeds them.
      for (const Mark& mark : marks(each))
        if (mark.strong || highest_ > mark.value) out_.most = std::max(out_.most, mark.value);
    }
    out_.most *= 1.06;
    const Scale scale =
        model_.headerData(TimelineModel::device, Qt::Horizontal, TimelineModel::ScaleRole).value<Scale>();
    out_.ticks = round_ticks(out_.most, scale, std::max(2, static_cast<int>(size_.height() / (3 * line_))));
    double axis = 0;
    for (const Tick& each : out_.ticks) axis = std::max(axis, metrics_.horizontalAdvance(each.text));
    const double right = std::min(titles + 14, size_.width() * kMostForTitles) + kMargin;
    const double left = kMargin + axis + 6;
    out_.plot = QRectF(left, kMargin, std::max(20.0, size_.width() - left - right),
                       std::max(20.0, size_.height() - 2 * kMargin - line_ - 4));
  }

  void set_points(CurveLayout::Curve& curve) {
    curve.points.reserve(2 * (curve.last - curve.first + 1));
    for (int row = curve.first; row <= curve.last; ++row) {
      const double y = out_.y(of(row, TimelineModel::BytesRole).toDouble());
      const double begin = out_.x(of(row, TimelineModel::PositionRole).toDouble());
      const double end = out_.x(of(row, TimelineModel::EndRole).toDouble());
      curve.points << QPointF(begin, y) << QPointF(end, y);
      if (of(row, TimelineModel::PeakRole).toBool()) curve.peak = QPointF((begin + end) / 2, y);
    }
  }

  /// Places the labels, of two lines each, at the ends of their curves, and moves them apart.
  void set_labels() {
    std::vector<CurveLayout::Curve*> sorted;
    for (CurveLayout::Curve& each : out_.curves) sorted.push_back(&each);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
      return a->points.back().y() < b->points.back().y();
    });
    const double room = out_.plot.bottom() + 2;
    const double tall = std::min(2 * line_, (room - kMargin / 2) / static_cast<double>(sorted.size()));
    const double left = out_.plot.right() + 14, width = std::max(10.0, size_.width() - 4 - left);
    double free = kMargin / 2;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const double below = static_cast<double>(sorted.size() - i) * tall;
      const double top =
          std::clamp(sorted[i]->points.back().y() - tall / 2, free, std::max(free, room - below));
      sorted[i]->label = QRectF(left, top, width, tall);
      free = top + tall;
    }
  }

  void set_phases() {
    const auto shown = std::find_if(out_.curves.begin(), out_.curves.end(), [this](const auto& each) {
      return current_ >= each.first && current_ <= each.last;
    });
    const CurveLayout::Curve& curve = shown == out_.curves.end() ? out_.curves.front() : *shown;
    for (int row = curve.first; row <= curve.last; ++row) {
      const int phase = of(row, TimelineModel::PhaseRole).toInt();
      const double end = out_.x(of(row, TimelineModel::EndRole).toDouble());
      if (out_.phases.empty() || out_.phases.back().phase != phase) {
        const double begin = out_.x(of(row, TimelineModel::PositionRole).toDouble());
        out_.phases.push_back({of(row, TimelineModel::PhaseTextRole).toString(),
                               phase,
                               QRectF(begin, out_.plot.top(), 0, out_.plot.height()),
                               {}});
      }
      out_.phases.back().area.setRight(end);
    }
    for (std::size_t i = 0; i < out_.phases.size(); ++i) name_phase(i);
  }

  /// Places the name below its phase if there is room; the last one may extend to the right.
  void name_phase(std::size_t i) {
    CurveLayout::Phase& phase = out_.phases[i];
    const double width = metrics_.horizontalAdvance(phase.name);
    const bool last = i + 1 == out_.phases.size();
    const double left =
        last && width > phase.area.width() ? phase.area.left() + 2 : phase.area.center().x() - width / 2;
    if (width + 2 > phase.area.width() && (!last || left + width > size_.width())) return;
    phase.label = QRectF(left, out_.plot.bottom() + 3, width, line_);
  }

  void set_limits() {
    QVector<Mark> all;
    if (shared_)
      all = marks(out_.curves.front());
    else
      for (const CurveLayout::Curve& each : out_.curves)
        for (const Mark& mark : marks(each))
          if (mark.strong && !all.contains(mark)) all.push_back(mark);
    for (const Mark& mark : all)
      if (mark.value <= out_.most) add_limit(mark);
  }

  /// Returns "available 39.1 GiB", with the titles of its curves if they differ.
  [[nodiscard]] QString text_of(const Mark& mark) const {
    QString text = mark.name + ' ' + mark.text;
    if (shared_) return text;
    QStringList titles;
    for (const CurveLayout::Curve& each : out_.curves)
      if (marks(each).contains(mark)) titles << each.title;
    text += ": " + titles.join(", ");
    return metrics_.elidedText(text, Qt::ElideRight, out_.plot.width() - 14);
  }

  /// Adds a limit with its label above the line at the left, or beside the label of a close line.
  void add_limit(const Mark& mark) {
    Limit limit{mark, out_.y(mark.value), -1, {}, text_of(mark)};
    const double width = metrics_.horizontalAdvance(limit.text);
    double left = out_.plot.left() + 6;
    const double top = limit.x - line_ < 0 ? limit.x + 1 : limit.x - line_;
    for (const Limit& other : out_.limits)
      if (std::abs(other.label.top() - top) < line_ + 2) left = std::max(left, other.label.right() + 16);
    if (left + width < out_.plot.right()) limit.label = QRectF(left, top, width, line_), limit.tier = 0;
    out_.limits.push_back(limit);
  }

  const QAbstractItemModel& model_;
  const QFontMetricsF& metrics_;
  QSizeF size_;
  double line_, highest_{};
  int current_;
  bool shared_{true};
  CurveLayout out_;
};

class Drawing {
 public:
  Drawing(QPainter& painter, const CurveLayout& layout, const QPalette& palette)
      : painter_(painter), layout_(layout), palette_(palette), metrics_(painter.font(), painter.device()) {}

  /// Shades every other phase, with lines between them for those who cannot tell the shades apart.
  void phases() const {
    const QColor base = palette_.color(QPalette::Base);
    for (const CurveLayout::Phase& each : layout_.phases) {
      if (each.phase % 2 != 0) painter_.fillRect(each.area, ink::mix(base, ink::text(palette_), 0.05));
      painter_.setPen(QPen(ink::grid(palette_), 1));
      painter_.drawLine(each.area.topLeft(), each.area.bottomLeft() + QPointF(0, 4));
      if (each.label.isEmpty()) continue;
      painter_.setPen(ink::faint(palette_));
      painter_.drawText(each.label, Qt::AlignCenter | Qt::TextDontClip, each.name);
    }
  }

  void axis() const {
    for (const Tick& tick : layout_.ticks) {
      const double y = layout_.y(tick.value), line = metrics_.height();
      painter_.setPen(QPen(ink::grid(palette_), 1));
      painter_.drawLine(QPointF(layout_.plot.left() - 3, y), QPointF(layout_.plot.right(), y));
      painter_.setPen(ink::faint(palette_));
      painter_.drawText(QRectF(0, y - line / 2, layout_.plot.left() - 6, line),
                        Qt::AlignRight | Qt::AlignVCenter, tick.text);
    }
  }

  void limits() const {
    for (const Limit& each : layout_.limits) {
      painter_.setPen(ink::limit(each.mark.strong, palette_));
      painter_.drawLine(QPointF(layout_.plot.left(), each.x), QPointF(layout_.plot.right(), each.x));
    }
  }

  /// Draws the names of limits over lines and curves.
  void names_of_limits() const {
    QColor ground = palette_.color(QPalette::Base);
    ground.setAlphaF(0.85F);
    for (const Limit& each : layout_.limits) {
      if (each.label.isEmpty()) continue;
      painter_.fillRect(each.label.adjusted(-3, 2, 3, -1), ground);
      painter_.setPen(each.mark.strong ? ink::text(palette_) : ink::faint(palette_));
      painter_.drawText(each.label, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextDontClip, each.text);
    }
  }

  void curve(const CurveLayout::Curve& each, bool highlighted) const {
    QColor color = ink::series(each.subject, palette_);
    if (each.draft) color = ink::mix(color, palette_.color(QPalette::Base), 0.3);
    QPen pen(color, highlighted ? 3.2 : 2, Qt::SolidLine, Qt::FlatCap, Qt::MiterJoin);
    const QVector<qreal> dashes = ink::dashes(each.subject);
    if (!dashes.isEmpty()) pen.setDashPattern(dashes);
    painter_.setPen(pen);
    painter_.setBrush(Qt::NoBrush);
    painter_.drawPolyline(QPolygonF(each.points));
    // The line from the curve's end to its label.
    painter_.setPen(QPen(color, 1));
    painter_.drawLine(each.points.back(), QPointF(each.label.left() - 3, each.label.center().y()));
    painter_.setPen(QPen(palette_.color(QPalette::Base), 1));
    painter_.setBrush(color);
    painter_.drawPath(ink::shape(each.subject, each.peak, 4));
  }

  void label(const CurveLayout::Curve& each) const {
    const double line = metrics_.height();
    const QString title = metrics_.elidedText(each.title, Qt::ElideMiddle, each.label.width());
    painter_.setPen(ink::text(palette_));
    if (each.label.height() < 1.9 * line) {
      painter_.drawText(each.label, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextDontClip, title);
      return;
    }
    painter_.drawText(QRectF(each.label.topLeft(), QSizeF(each.label.width(), line)), Qt::AlignLeft, title);
    painter_.setPen(ink::faint(palette_));
    painter_.drawText(QRectF(each.label.left(), each.label.top() + line, each.label.width(), line),
                      Qt::AlignLeft, each.text);
  }

  void point(const CurveLayout::Curve& curve, int row, const QColor& color) const {
    const qsizetype at = 2 * (row - curve.first);
    const QPointF place = (curve.points[at] + curve.points[at + 1]) / 2;
    painter_.setPen(QPen(color, 1, Qt::DotLine));
    painter_.drawLine(QPointF(place.x(), layout_.plot.top()), QPointF(place.x(), layout_.plot.bottom()));
    painter_.setPen(QPen(color, 2));
    painter_.setBrush(palette_.color(QPalette::Base));
    painter_.drawEllipse(place, 5, 5);
  }

 private:
  QPainter& painter_;
  const CurveLayout& layout_;
  const QPalette& palette_;
  QFontMetricsF metrics_;
};

bool has(const CurveLayout::Curve& curve, int row) { return row >= curve.first && row <= curve.last; }

}  // namespace

CurveLayout curve_layout(const QAbstractItemModel& model, const QSizeF& size, const QFontMetricsF& metrics,
                         int current) {
  return Layout(model, size, metrics, current).make();
}

CurveChart::CurveChart(QWidget* parent) : Chart(7, parent) {
  setAccessibleName(tr("Memory over the step"));
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
}

CurveLayout CurveChart::layout_now() const {
  if (model() == nullptr) return {};
  return curve_layout(*model(), QSizeF(viewport()->size()), QFontMetricsF(font(), this), current());
}

QSize CurveChart::picture_size() const { return size_of(105, 18); }

void CurveChart::draw(QPainter& painter, const QRectF& area, const QPalette& palette,
                      const View& view) const {
  const CurveLayout layout =
      curve_layout(*model(), area.size(), QFontMetricsF(painter.font(), painter.device()), view.current);
  const Drawing drawing(painter, layout, palette);
  painter.translate(area.topLeft());
  drawing.phases();
  drawing.axis();
  drawing.limits();
  for (const CurveLayout::Curve& each : layout.curves) drawing.curve(each, has(each, view.hovered));
  for (const CurveLayout::Curve& each : layout.curves) drawing.label(each);
  drawing.names_of_limits();
  for (const CurveLayout::Curve& each : layout.curves) {
    if (has(each, view.hovered)) drawing.point(each, view.hovered, ink::faint(palette));
    if (has(each, view.current)) drawing.point(each, view.current, ink::current(palette, view.focused));
  }
}

QRectF CurveChart::place_of(const QModelIndex& index) const {
  const CurveLayout layout = layout_now();
  for (const CurveLayout::Curve& each : layout.curves)
    if (index.isValid() && has(each, index.row())) {
      const qsizetype at = 2 * (index.row() - each.first);
      return QRectF(each.points[at], each.points[at + 1]).adjusted(0, -5, 0, 5);
    }
  return {};
}

QModelIndex CurveChart::index_at(const QPointF& at) const {
  const CurveLayout layout = layout_now();
  int best = -1;
  double distance = 1e9;
  for (const CurveLayout::Curve& each : layout.curves) {
    if (each.label.contains(at)) return model()->index(each.first, TimelineModel::device);
    if (at.x() < layout.plot.left() || at.x() > layout.plot.right()) continue;
    for (int row = each.first; row <= each.last; ++row) {
      const QPointF begin = each.points[2 * (row - each.first)],
                    end = each.points[2 * (row - each.first) + 1];
      const double away = std::abs(at.y() - begin.y());
      if (at.x() >= begin.x() && at.x() < end.x() && away < distance) distance = away, best = row;
    }
  }
  // Only near a curve, or there would be a tooltip everywhere.
  return distance < 24 ? model()->index(best, TimelineModel::device) : QModelIndex();
}

int CurveChart::other_curve(int row, int by) const {
  const CurveLayout layout = layout_now();
  for (std::size_t i = 0; i < layout.curves.size(); ++i) {
    if (!has(layout.curves[i], row)) continue;
    const auto next = static_cast<std::ptrdiff_t>(i) + by;
    if (next < 0 || next >= static_cast<std::ptrdiff_t>(layout.curves.size())) return row;
    const CurveLayout::Curve& to = layout.curves[static_cast<std::size_t>(next)];
    const double position = value(row, 0, TimelineModel::PositionRole).toDouble();
    int at = to.first;
    while (at < to.last && value(at, 0, TimelineModel::EndRole).toDouble() <= position + 1e-9) ++at;
    return at;
  }
  return 0;
}

int CurveChart::moved(int row, int key) const {
  switch (key) {
    case Qt::Key_Left: return std::max(0, row - 1);
    case Qt::Key_Right: return row + 1;
    case Qt::Key_Up: return other_curve(row, -1);
    case Qt::Key_Down: return other_curve(row, 1);
    case Qt::Key_Home: return 0;
    case Qt::Key_End: return rows() - 1;
    default: return -1;
  }
}

QModelIndex CurveChart::spoken_index(int row) const {
  return row < 0 || model() == nullptr ? QModelIndex() : model()->index(row, TimelineModel::device);
}

void CurveChart::activate(int row) { Q_EMIT activated(value(row, 0, TimelineModel::SubjectRole).toInt()); }

QString CurveChart::summary() const {
  QStringList all;
  for (int row = 0; row < rows(); ++row)
    if (value(row, 0, TimelineModel::PeakRole).toBool())
      all << value(row, TimelineModel::device, Qt::AccessibleTextRole).toString();
  return all.join('\n');
}

}  // namespace zplan::gui
