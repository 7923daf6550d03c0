#pragma once

#include "gui/charts/axis.h"
#include "gui/charts/chart.h"

namespace zplan::gui {

/// The layout of a scatter chart as a function of the model and the size.
struct ScatterLayout {
  struct Point {
    int row{}, scenario{};
    QPointF at;
    bool fits{}, front{}, draft{};
    bool beyond{};  ///< needs more than the end of the axis, where it is drawn
    QString text;
    QRectF label;  ///< empty if there is no room
  };
  struct Front {
    int scenario{};
    QVector<QPointF> points;
  };
  struct Entry {
    int scenario{-1};  ///< −1: an entry about all scenarios
    enum class Sign { scenario, fits, misses, front, beyond } sign{Sign::scenario};
    QRectF sample, text;
    QString words;
  };
  QRectF plot;
  double most_bytes{}, most_speed{};
  std::vector<Point> points;  ///< in the order of the rows
  std::vector<Front> fronts;
  QVector<Limit> limits;  ///< if all scenarios have the same ones
  QVector<Tick> ticks_across, ticks_up;
  QString name_across, name_up;
  std::vector<Entry> legend;

  [[nodiscard]] double x(double bytes) const { return plot.left() + bytes / most_bytes * plot.width(); }
  [[nodiscard]] double y(double speed) const { return plot.bottom() - speed / most_speed * plot.height(); }
};
[[nodiscard]] ScatterLayout scatter_layout(const QAbstractItemModel& model, const QSizeF& size,
                                           const QFontMetricsF& metrics);

/// Strategies by memory and speed, from a TradeoffModel. Each scenario has a shape, filled for plans that
/// fit. Arrow keys move to the next point in their direction, page up and down through all points; a click or
/// Return chooses.
class ScatterChart : public Chart {
  Q_OBJECT

 public:
  explicit ScatterChart(QWidget* parent = nullptr);

  [[nodiscard]] QSize picture_size() const override;
  [[nodiscard]] QRectF place_of(const QModelIndex& index) const override;
  [[nodiscard]] QModelIndex index_at(const QPointF& at) const override;
  [[nodiscard]] ScatterLayout layout_now() const;

 Q_SIGNALS:
  /// `scenario`: index in the model; `id`: the strategy's.
  void activated(int scenario, const QString& id);

 protected:
  void draw(QPainter& painter, const QRectF& area, const QPalette& palette, const View& view) const override;
  [[nodiscard]] int moved(int row, int key) const override;
  void activate(int row) override;
  [[nodiscard]] QString summary() const override;
  [[nodiscard]] bool is_link() const override { return true; }
};

}  // namespace zplan::gui
