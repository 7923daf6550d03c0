#include "gui/charts/scatter_chart.h"

#include <QPainter>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "gui/charts/ink.h"
#include "gui/models/tradeoff_model.h"

namespace zplan::gui {

namespace {

constexpr double kMargin = 8;
constexpr double kRadius = 5;
/// End of the axis, at most, in multiples of the largest device, so that plans far beyond it leave room for
/// the others.
constexpr double kMostDevices = 1.6;

class Layout {
 public:
  Layout(const QAbstractItemModel& model, const QSizeF& size, const QFontMetricsF& metrics)
      : model_(model), metrics_(metrics), size_(size), line_(metrics.height()) {}

  ScatterLayout make() {
    if (model_.rowCount() == 0) return out_;
    set_ends();
    set_plot();
    for (int row = 0; row < model_.rowCount(); ++row) add_point(row);
    set_fronts();
    set_labels();
    return out_;
  }

 private:
  [[nodiscard]] QVariant of(int row, int role) const { return model_.index(row, 0).data(role); }
  [[nodiscard]] double width(const QString& text) const { return metrics_.horizontalAdvance(text); }
  [[nodiscard]] QVector<Mark> marks(int row) const {
    return of(row, TradeoffModel::MarksRole).value<QVector<Mark>>();
  }

  void set_ends() {
    double needs = 0, device = 0;
    for (int row = 0; row < model_.rowCount(); ++row) {
      needs = std::max(needs, of(row, TradeoffModel::BytesRole).toDouble());
      out_.most_speed = std::max(out_.most_speed, of(row, TradeoffModel::SpeedRole).toDouble());
      for (const Mark& mark : marks(row)) device = std::max(device, mark.value);
      shared_ = shared_ && marks(row) == marks(0);
    }
    out_.most_bytes =
        device > 0 ? std::min(std::max(needs, device) * 1.05, device * kMostDevices) : needs * 1.05;
    beyond_ = needs > out_.most_bytes;
    out_.most_speed *= 1.08;
    if (out_.most_speed <= 0) out_.most_speed = 1;
    if (out_.most_bytes <= 0) out_.most_bytes = 1;
  }

  void set_plot() {
    Scale across =
        model_.headerData(TradeoffModel::needs, Qt::Horizontal, TradeoffModel::ScaleRole).value<Scale>();
    Scale up =
        model_.headerData(TradeoffModel::speed, Qt::Horizontal, TradeoffModel::ScaleRole).value<Scale>();
    // The names stand at the ends of the axes.
    out_.name_up = model_.headerData(TradeoffModel::speed, Qt::Horizontal).toString();
    out_.name_across =
        model_.headerData(TradeoffModel::needs, Qt::Horizontal).toString() + ", " + across.name;
    across.name.clear(), up.name.clear();
    out_.ticks_up =
        round_ticks(out_.most_speed, up, std::max(2, static_cast<int>(size_.height() / (4 * line_))));
    double axis = 0;
    for (Tick& each : out_.ticks_up) each.text = each.text.trimmed(), axis = std::max(axis, width(each.text));
    out_.plot =
        QRectF(QPointF(kMargin + axis + 8, 0), QPointF(size_.width() - 2 * kMargin - (beyond_ ? 8 : 0), 1));
    set_legend();
    if (shared_)
      out_.limits = place_limits(
          marks(0), [this](double value) { return out_.x(value); }, kMargin + width(out_.name_up) + 8,
          size_.width() - kMargin, 0, line_, [this](const QString& text) { return width(text); });
    const double top = kMargin / 2 + std::max(1, tiers(out_.limits)) * line_ + 4;
    // Ticks with the axis' name, then the legend.
    double bottom = kMargin / 2 + line_ + 8 + legend_height_;
    if (size_.height() - top - bottom < 4 * line_) out_.legend.clear(), bottom = kMargin / 2 + line_ + 8;
    out_.plot.setTop(top);
    out_.plot.setBottom(std::max(top + 20, size_.height() - bottom));
    for (Limit& each : out_.limits) each.label.translate(0, top - 2);
    out_.ticks_across =
        round_ticks(out_.most_bytes, across, std::max(2, static_cast<int>(out_.plot.width() / (6 * line_))));
    const double name = out_.plot.right() - width(out_.name_across) - 8;
    for (Tick& each : out_.ticks_across) {
      each.text = each.text.trimmed();
      if (out_.x(each.value) + width(each.text) / 2 > name) each.text.clear();
    }
    const double legend = out_.plot.bottom() + line_ + 12;
    for (ScatterLayout::Entry& each : out_.legend)
      each.sample.translate(0, legend), each.text.translate(0, legend);
  }

  void add_entry(int scenario, ScatterLayout::Entry::Sign sign, const QString& words) {
    const double sample = sign == ScatterLayout::Entry::Sign::front ? 2 * line_ : line_;
    const double whole = sample + 4 + width(words);
    if (at_.x() > kMargin && at_.x() + whole > size_.width() - kMargin)
      at_ = QPointF(kMargin, at_.y() + line_ + 2);
    out_.legend.push_back({scenario, sign, QRectF(at_, QSizeF(sample, line_)),
                           QRectF(at_.x() + sample + 4, at_.y(), width(words) + 1, line_), words});
    at_.rx() += whole + 16;
  }

  void set_legend() {
    using Sign = ScatterLayout::Entry::Sign;
    at_ = QPointF(kMargin, 0);
    std::map<int, QString> scenarios;
    for (int row = 0; row < model_.rowCount(); ++row)
      scenarios[of(row, TradeoffModel::ScenarioRole).toInt()] = of(row, TradeoffModel::TitleRole).toString();
    for (const auto& each : scenarios) add_entry(each.first, Sign::scenario, each.second);
    add_entry(-1, Sign::fits, ScatterChart::tr("fits"));
    add_entry(-1, Sign::misses, ScatterChart::tr("does not fit"));
    add_entry(-1, Sign::front, ScatterChart::tr("none is better at both"));
    if (beyond_) add_entry(-1, Sign::beyond, ScatterChart::tr("needs more than is drawn"));
    legend_height_ = at_.y() + line_ + 4;
  }

  void add_point(int row) {
    const double needs = of(row, TradeoffModel::BytesRole).toDouble();
    ScatterLayout::Point point;
    point.row = row;
    point.scenario = of(row, TradeoffModel::ScenarioRole).toInt();
    point.beyond = needs > out_.most_bytes;
    point.at = QPointF(out_.x(std::min(needs, out_.most_bytes)),
                       out_.y(of(row, TradeoffModel::SpeedRole).toDouble()));
    point.fits = of(row, TradeoffModel::FitsRole).toBool();
    point.front = of(row, TradeoffModel::FrontRole).toBool();
    point.draft = of(row, TradeoffModel::DraftRole).toBool();
    point.text = of(row, TradeoffModel::IdRole).toString();
    out_.points.push_back(point);
  }

  void set_fronts() {
    std::map<int, QVector<QPointF>> fronts;
    for (const ScatterLayout::Point& each : out_.points)
      if (each.front) fronts[each.scenario].push_back(each.at);
    for (auto& each : fronts) {
      std::sort(each.second.begin(), each.second.end(), [](const QPointF& a, const QPointF& b) {
        return a.x() < b.x() || (a.x() == b.x() && a.y() > b.y());
      });
      out_.fronts.push_back({each.first, each.second});
    }
  }

  /// Places the labels of the front first, then of plans that fit, each at the first free place around its
  /// point.
  void set_labels() {
    std::vector<ScatterLayout::Point*> order;
    for (ScatterLayout::Point& each : out_.points) order.push_back(&each);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return std::pair(!a->front, !a->fits) < std::pair(!b->front, !b->fits);
    });
    QVector<QRectF> taken;
    for (const ScatterLayout::Point& each : out_.points)
      taken << QRectF(each.at.x() - kRadius, each.at.y() - kRadius, 2 * kRadius, 2 * kRadius);
    for (ScatterLayout::Point* each : order) place(*each, taken);
  }

  void place(ScatterLayout::Point& point, QVector<QRectF>& taken) const {
    const double wide = width(point.text) + 2, tall = line_ * 0.9, gap = kRadius + 3;
    const std::array<QPointF, 6> places{QPointF(gap, -tall / 2),         QPointF(-gap - wide, -tall / 2),
                                        QPointF(-wide / 2, -gap - tall), QPointF(-wide / 2, gap),
                                        QPointF(gap * 0.7, -gap - tall), QPointF(gap * 0.7, gap)};
    // Rather on the line of a front than nowhere.
    for (const bool on_fronts : {false, true})
      for (const QPointF& offset : places) {
        const QRectF label(point.at + offset, QSizeF(wide, tall));
        if (!is_free(label, taken) || (!on_fronts && is_on_front(label))) continue;
        point.label = label;
        taken << label;
        return;
      }
  }

  [[nodiscard]] bool is_free(const QRectF& label, const QVector<QRectF>& taken) const {
    return out_.plot.adjusted(1, -2, kMargin, 0).contains(label) &&
           std::none_of(
               out_.limits.begin(), out_.limits.end(),
               [&label](const Limit& limit) { return limit.x > label.left() && limit.x < label.right(); }) &&
           std::none_of(taken.begin(), taken.end(),
                        [&label](const QRectF& other) { return other.intersects(label); });
  }

  [[nodiscard]] bool is_on_front(const QRectF& label) const {
    const std::array<QLineF, 2> diagonals{QLineF(label.topLeft(), label.bottomRight()),
                                          QLineF(label.bottomLeft(), label.topRight())};
    for (const ScatterLayout::Front& front : out_.fronts)
      for (qsizetype i = 1; i < front.points.size(); ++i)
        for (const QLineF& each : diagonals)
          if (each.intersects(QLineF(front.points[i - 1], front.points[i]), nullptr) ==
              QLineF::BoundedIntersection)
            return true;
    return false;
  }

  const QAbstractItemModel& model_;
  const QFontMetricsF& metrics_;
  QSizeF size_;
  double line_, legend_height_{};
  bool shared_{true}, beyond_{};
  QPointF at_;
  ScatterLayout out_;
};

class Drawing {
 public:
  Drawing(QPainter& painter, const ScatterLayout& layout, const QPalette& palette)
      : painter_(painter), layout_(layout), palette_(palette), metrics_(painter.font(), painter.device()) {}

  void axes() const {
    const double line = metrics_.height();
    const QRectF& plot = layout_.plot;
    for (const Tick& tick : layout_.ticks_across) {
      const double x = layout_.x(tick.value);
      grid_line(QPointF(x, plot.top()), QPointF(x, plot.bottom() + 3));
      painter_.drawText(QRectF(x - 100, plot.bottom() + 4, 200, line), Qt::AlignHCenter, tick.text);
    }
    for (const Tick& tick : layout_.ticks_up) {
      const double y = layout_.y(tick.value);
      grid_line(QPointF(plot.left() - 3, y), QPointF(plot.right(), y));
      painter_.drawText(QRectF(0, y - line / 2, plot.left() - 6, line), Qt::AlignRight | Qt::AlignVCenter,
                        tick.text);
    }
    painter_.drawText(QRectF(kMargin, plot.top() - line - 4, plot.width(), line),
                      Qt::AlignLeft | Qt::AlignTop, layout_.name_up);
    painter_.drawText(QRectF(plot.left(), plot.bottom() + 4, plot.width(), line), Qt::AlignRight,
                      layout_.name_across);
  }

  void limits() const {
    for (const Limit& each : layout_.limits) {
      painter_.setPen(ink::limit(each.mark.strong, palette_));
      painter_.drawLine(QPointF(each.x, each.label.isEmpty() ? layout_.plot.top() : each.label.top() + 2),
                        QPointF(each.x, layout_.plot.bottom()));
      painter_.setPen(each.mark.strong ? ink::text(palette_) : ink::faint(palette_));
      if (!each.label.isEmpty()) painter_.drawText(each.label, Qt::AlignCenter | Qt::TextDontClip, each.text);
    }
  }

  void fronts() const {
    painter_.setBrush(Qt::NoBrush);
    for (const ScatterLayout::Front& each : layout_.fronts) {
      QPen pen(ink::series(each.scenario, palette_), 1.6);
      if (const QVector<qreal> dashes = ink::dashes(each.scenario); !dashes.isEmpty())
        pen.setDashPattern(dashes);
      painter_.setPen(pen);
      painter_.drawPolyline(QPolygonF(each.points));
    }
  }

  void point(const ScatterLayout::Point& each, double radius) const {
    mark(each.scenario, each.at, radius, each.fits, each.draft);
    if (each.beyond) arrow(each.at + QPointF(radius + 3, 0), ink::series(each.scenario, palette_));
  }

  void label(const ScatterLayout::Point& each) const {
    if (each.label.isEmpty()) return;
    painter_.setPen(each.front ? ink::text(palette_) : ink::faint(palette_));
    painter_.drawText(each.label, Qt::AlignCenter | Qt::TextDontClip, each.text);
  }

  void ring(const ScatterLayout::Point& each, const QColor& color) const {
    painter_.setPen(QPen(color, 2));
    painter_.setBrush(Qt::NoBrush);
    painter_.drawEllipse(each.at, kRadius + 5, kRadius + 5);
  }

  void legend() const {
    using Sign = ScatterLayout::Entry::Sign;
    for (const ScatterLayout::Entry& each : layout_.legend) {
      const QPointF at = each.sample.center();
      // Entries about all scenarios have no scenario's colour.
      const QColor color = ink::faint(palette_);
      switch (each.sign) {
        case Sign::scenario: mark(each.scenario, at, kRadius, true, false); break;
        case Sign::fits: mark(0, at, kRadius, true, color); break;
        case Sign::misses: mark(0, at, kRadius, false, color); break;
        case Sign::beyond: arrow(at, color); break;
        case Sign::front:
          painter_.setPen(QPen(color, 1.6));
          painter_.drawLine(QPointF(each.sample.left(), at.y()), QPointF(each.sample.right(), at.y()));
          break;
      }
      painter_.setPen(ink::text(palette_));
      painter_.drawText(each.text, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextDontClip, each.words);
    }
  }

 private:
  void grid_line(const QPointF& from, const QPointF& to) const {
    painter_.setPen(QPen(ink::grid(palette_), 1));
    painter_.drawLine(from, to);
    painter_.setPen(ink::faint(palette_));
  }
  void mark(int scenario, const QPointF& at, double radius, bool filled, bool draft) const {
    const QColor plain = ink::series(scenario, palette_);
    mark(scenario, at, radius, filled, draft ? ink::mix(plain, palette_.color(QPalette::Base), 0.35) : plain);
  }
  void mark(int scenario, const QPointF& at, double radius, bool filled, const QColor& color) const {
    painter_.setPen(QPen(color, 1.6));
    painter_.setBrush(filled ? color : palette_.color(QPalette::Base));
    painter_.drawPath(ink::shape(scenario, at, radius));
  }
  void arrow(const QPointF& tail, const QColor& color) const {
    painter_.setPen(QPen(color, 1.6));
    painter_.setBrush(Qt::NoBrush);
    painter_.drawPolyline(QPolygonF{{tail + QPointF(0, -4), tail + QPointF(5, 0), tail + QPointF(0, 4)}});
  }

  QPainter& painter_;
  const ScatterLayout& layout_;
  const QPalette& palette_;
  QFontMetricsF metrics_;
};

/// Returns the distance to `to` in the direction of the key, sideways counted double; negative if it lies
/// behind.
double distance(const QPointF& from, const QPointF& to, int key) {
  const QPointF way = to - from;
  double ahead = way.x(), aside = way.y();
  if (key == Qt::Key_Left) ahead = -way.x();
  if (key == Qt::Key_Up) ahead = -way.y(), aside = way.x();
  if (key == Qt::Key_Down) ahead = way.y(), aside = way.x();
  return ahead <= 0 ? -1 : ahead + 2 * std::abs(aside);
}

}  // namespace

ScatterLayout scatter_layout(const QAbstractItemModel& model, const QSizeF& size,
                             const QFontMetricsF& metrics) {
  return Layout(model, size, metrics).make();
}

ScatterChart::ScatterChart(QWidget* parent) : Chart(8, parent) {
  setAccessibleName(tr("Memory against speed"));
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
}

ScatterLayout ScatterChart::layout_now() const {
  if (model() == nullptr) return {};
  return scatter_layout(*model(), QSizeF(viewport()->size()), QFontMetricsF(font(), this));
}

QSize ScatterChart::picture_size() const { return size_of(105, 24); }

void ScatterChart::draw(QPainter& painter, const QRectF& area, const QPalette& palette,
                        const View& view) const {
  const ScatterLayout layout =
      scatter_layout(*model(), area.size(), QFontMetricsF(painter.font(), painter.device()));
  const Drawing drawing(painter, layout, palette);
  painter.translate(area.topLeft());
  drawing.axes();
  drawing.limits();
  drawing.fronts();
  // Plans that fit are drawn on top.
  for (const bool fits : {false, true})
    for (const ScatterLayout::Point& each : layout.points)
      if (each.fits == fits) drawing.point(each, each.row == view.hovered ? kRadius + 2 : kRadius);
  for (const ScatterLayout::Point& each : layout.points) drawing.label(each);
  if (view.current >= 0 && view.current < static_cast<int>(layout.points.size()))
    drawing.ring(layout.points[static_cast<std::size_t>(view.current)], ink::current(palette, view.focused));
  drawing.legend();
}

QRectF ScatterChart::place_of(const QModelIndex& index) const {
  const ScatterLayout layout = layout_now();
  if (!index.isValid() || index.row() >= static_cast<int>(layout.points.size())) return {};
  const QPointF at = layout.points[static_cast<std::size_t>(index.row())].at;
  return {at.x() - kRadius, at.y() - kRadius, 2 * kRadius, 2 * kRadius};
}

QModelIndex ScatterChart::index_at(const QPointF& at) const {
  constexpr double kReach = kRadius + 5;
  const ScatterLayout layout = layout_now();
  int best = -1;
  double nearest = kReach;
  for (const ScatterLayout::Point& each : layout.points) {
    const double away = QLineF(at, each.at).length();
    if (away < nearest) nearest = away, best = each.row;
  }
  for (const ScatterLayout::Point& each : layout.points)
    if (best < 0 && each.label.contains(at)) best = each.row;
  return best < 0 ? QModelIndex() : model()->index(best, TradeoffModel::strategy);
}

int ScatterChart::moved(int row, int key) const {
  if (key == Qt::Key_Home) return 0;
  if (key == Qt::Key_End) return rows() - 1;
  // In the order of the table, which also reaches points at the same place.
  if (key == Qt::Key_PageUp) return std::max(0, row - 1);
  if (key == Qt::Key_PageDown) return row + 1;
  if (key != Qt::Key_Left && key != Qt::Key_Right && key != Qt::Key_Up && key != Qt::Key_Down) return -1;
  if (row < 0) return 0;
  const ScatterLayout layout = layout_now();
  const QPointF from = layout.points[static_cast<std::size_t>(row)].at;
  int best = row;
  double least = 1e9;
  for (const ScatterLayout::Point& each : layout.points) {
    const double away = distance(from, each.at, key);
    if (each.row != row && away >= 0 && away < least) least = away, best = each.row;
  }
  return best;
}

void ScatterChart::activate(int row) {
  Q_EMIT activated(value(row, 0, TradeoffModel::ScenarioRole).toInt(),
                   value(row, 0, TradeoffModel::IdRole).toString());
}

QString ScatterChart::summary() const {
  QStringList all;
  for (int row = 0; row < rows(); ++row)
    if (value(row, 0, TradeoffModel::FrontRole).toBool())
      all << value(row, TradeoffModel::strategy, Qt::AccessibleTextRole).toString();
  return all.isEmpty() ? tr("%n strategies, none fits", nullptr, rows()) : all.join('\n');
}

}  // namespace zplan::gui
