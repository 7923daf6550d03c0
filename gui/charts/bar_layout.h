#pragma once
// The layout of a bar chart as a function of the model and the size.

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
    QRectF area;    ///< the whole width: what a click hits
    QRectF label;   ///< the title
    QRectF bar;     ///< from zero to the total
    QRectF beyond;  ///< the part of the bar beyond the deciding limit; empty if there is none
    QRectF sign;    ///< the warning sign; empty if the plan fits
    QRectF total;   ///< the text of the total
    bool torn{};    ///< the bar is longer than the plot and drawn torn off; the boxes keep their full length
    std::vector<Segment> segments;
    QVector<Limit> limits;  ///< limits of this row without labels, if rows have different ones
  };
  struct Entry {
    int column{-1};  ///< −1: a limit
    Mark mark;
    QRectF sample, text;
    QString words;
  };

  QRectF plot;       ///< the visible rows
  double scale{};    ///< pixels per unit of the model
  double content{};  ///< height of all rows
  double row_height{};
  std::vector<Row> rows;
  QVector<Limit> limits;  ///< limits that all rows share
  QVector<Tick> ticks;
  std::vector<Entry> legend;

  [[nodiscard]] double x(double value) const { return plot.left() + value * scale; }
};

/// Returns the layout of a StackModel. `scrolled`: pixels by which the rows are moved up.
[[nodiscard]] BarLayout bar_layout(const QAbstractItemModel& model, const QSizeF& size,
                                   const QFontMetricsF& metrics, double scrolled = 0);

/// Returns the height at which all rows are visible.
[[nodiscard]] double whole_height(const QAbstractItemModel& model, double width,
                                  const QFontMetricsF& metrics);

}  // namespace zplan::gui
