#pragma once
// Where everything of a bar chart is, as a function of the model and the size.

#include <QAbstractItemModel>
#include <QFontMetricsF>
#include <QLineF>
#include <QRectF>
#include <QSizeF>

#include "gui/charts/axis.h"

namespace zplan::gui {

struct BarLayout {
  struct Segment {
    int column{};
    QRectF box;
  };
  struct Row {
    QRectF area;    ///< from edge to edge: what a click hits
    QRectF label;   ///< of the title
    QRectF bar;     ///< from nothing to the total
    QRectF beyond;  ///< of the bar, what lies beyond the limit that decides; empty where nothing does
    QRectF sign;    ///< that it does not fit; empty where it does
    QRectF total;   ///< of the total's text
    std::vector<Segment> segments;
    QVector<Limit> limits;  ///< of this row, where rows differ; without labels
  };
  struct Entry {
    int column{-1};  ///< −1: a limit
    Mark mark;
    QRectF sample, text;
    QString words;
  };

  QRectF plot;       ///< of the rows that are seen
  double scale{};    ///< pixels for one of the model's figures
  double content{};  ///< height of all rows
  double row_height{};
  std::vector<Row> rows;
  QVector<Limit> limits;  ///< that all rows share
  QVector<Tick> ticks;
  std::vector<Entry> legend;

  [[nodiscard]] double x(double value) const { return plot.left() + value * scale; }
};

/// `scrolled`: pixels by which the rows are moved up. The model's roles are StackModel's.
[[nodiscard]] BarLayout bar_layout(const QAbstractItemModel& model, const QSizeF& size,
                                   const QFontMetricsF& metrics, double scrolled = 0);

/// The height at which no row needs scrolling.
[[nodiscard]] double whole_height(const QAbstractItemModel& model, double width,
                                  const QFontMetricsF& metrics);

}  // namespace zplan::gui
