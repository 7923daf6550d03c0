#pragma once

#include "gui/charts/axis.h"
#include "gui/charts/chart.h"

namespace zplan::gui {

/// Where everything of a ScatterChart is, as a function of the model and the size.
struct ScatterLayout {
  struct Point {
    int row{}, scenario{};
    QPointF at;
    bool fits{}, front{}, draft{};
    bool beyond{};  ///< needs more than the axis has: drawn at its end
    QString text;
    QRectF label;  ///< empty where there is no room
  };
  struct Front {
    int scenario{};
    QVector<QPointF> points;
  };
  struct Entry {
    int scenario{-1};  ///< −1: what is said of all
    enum class Sign { scenario, fits, misses, front, beyond } sign{Sign::scenario};
    QRectF sample, text;
    QString words;
  };
  QRectF plot;
  double most_bytes{}, most_speed{};
  std::vector<Point> points;  ///< in the order of the rows
  std::vector<Front> fronts;
  QVector<Limit> limits;  ///< where all scenarios have the same
  QVector<Tick> ticks_across, ticks_up;
  QString name_across, name_up;
  std::vector<Entry> legend;

  [[nodiscard]] double x(double bytes) const { return plot.left() + bytes / most_bytes * plot.width(); }
  [[nodiscard]] double y(double speed) const { return plot.bottom() - speed / most_speed * plot.height(); }
};
[[nodiscard]] ScatterLayout scatter_layout(const QAbstractItemModel& model, const QSizeF& size,
                                           const QFontMetricsF& metrics);

/// Strategies by what they need and how fast they are, over a TradeoffModel: a shape a scenario, filled where
/// it fits. Arrow keys move to the next point that way,
/// page up and down through all of them; a click or Return chooses.
class ScatterChart : public Chart {
  Q_OBJECT

 public:
  explicit ScatterChart(QWidget* parent = nullptr);

  [[nodiscard]] QSize picture_size() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;
  [[nodiscard]] QRectF place_of(const QModelIndex& index) const override;
  [[nodiscard]] QModelIndex index_at(const QPointF& at) const override;
  [[nodiscard]] ScatterLayout layout_now() const;

 Q_SIGNALS:
  /// `scenario`: which of those that the model shows; `id`: of the strategy.
  void activated(int scenario, const QString& id);

 protected:
  void draw(QPainter& painter, const QRectF& area, const QPalette& palette, const View& view) const override;
  [[nodiscard]] int moved(int row, int key) const override;
  void activate(int row) override;
  [[nodiscard]] QString summary() const override;
  [[nodiscard]] bool is_link() const override { return true; }
};

}  // namespace zplan::gui
