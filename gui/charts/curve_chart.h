#pragma once

#include <QPainterPath>

#include "gui/charts/axis.h"
#include "gui/charts/chart.h"

namespace zplan::gui {

/// The layout of a curve chart as a function of the model and the size.
struct CurveLayout {
  struct Curve {
    int subject{}, first{}, last{};  ///< first and last row of the model
    QVector<QPointF> points;         ///< corners of the steps
    QPointF peak;
    QRectF label;  ///< at the right, apart from the others'
    QString title, text;
    bool draft{};
  };
  struct Phase {
    QString name;
    int phase{};
    QRectF area, label;
  };
  QRectF plot;
  double most{};  ///< bytes at the plot's top
  std::vector<Curve> curves;
  std::vector<Phase> phases;  ///< phases of the current curve
  QVector<Limit> limits;      ///< with y in `x`; if curves differ, the deciding limit of each, with titles
  QVector<Tick> ticks;

  [[nodiscard]] double y(double bytes) const {
    return most > 0 ? plot.bottom() - bytes / most * plot.height() : plot.bottom();
  }
  [[nodiscard]] double x(double position) const { return plot.left() + position * plot.width(); }
};
[[nodiscard]] CurveLayout curve_layout(const QAbstractItemModel& model, const QSizeF& size,
                                       const QFontMetricsF& metrics, int current = -1);

/// Memory over a step, from a TimelineModel. Left and right move along a curve, up and down to the next
/// curve.
class CurveChart : public Chart {
  Q_OBJECT

 public:
  explicit CurveChart(QWidget* parent = nullptr);

  [[nodiscard]] QSize picture_size() const override;
  [[nodiscard]] QRectF place_of(const QModelIndex& index) const override;
  [[nodiscard]] QModelIndex index_at(const QPointF& at) const override;
  [[nodiscard]] CurveLayout layout_now() const;

 Q_SIGNALS:
  void activated(int subject);

 protected:
  void draw(QPainter& painter, const QRectF& area, const QPalette& palette, const View& view) const override;
  [[nodiscard]] int moved(int row, int key) const override;
  void activate(int row) override;
  [[nodiscard]] QString summary() const override;
  [[nodiscard]] QModelIndex spoken_index(int row) const override;

 private:
  [[nodiscard]] int other_curve(int row, int by) const;
};

}  // namespace zplan::gui
