#pragma once
// Ticks of an axis, and labels of limits that do not overlap.

#include <QRectF>
#include <QString>
#include <QVector>
#include <functional>

#include "gui/models/figures.h"

namespace zplan::gui {

struct Tick {
  double value{};  ///< in the model's unit
  QString text;
};

/// Returns ticks from 0 to `most` in at most `count` steps of 1, 2 or 5 times a power of ten of the scale's
/// unit. The last one names the unit.
[[nodiscard]] QVector<Tick> round_ticks(double most, const Scale& scale, int count);

/// A limit on a horizontal axis, with its line and label.
struct Limit {
  Mark mark;
  double x{};
  int tier{};    ///< row of labels, 0 next to the plot; −1: no room
  QRectF label;  ///< empty if there is no room
  QString text;
};

/// Places labels beside their lines, in as few tiers as keep lines and labels apart, at most three. Tiers of
/// height `line` are stacked from `bottom` up.
[[nodiscard]] QVector<Limit> place_limits(const QVector<Mark>& marks,
                                          const std::function<double(double)>& x_of, double left,
                                          double right, double bottom, double line,
                                          const std::function<double(const QString&)>& width_of);

/// Returns the number of tiers used.
[[nodiscard]] int tiers(const QVector<Limit>& limits);

}  // namespace zplan::gui
