#pragma once
// Round figures along an axis, and labels that keep out of each other's way.

#include <QRectF>
#include <QString>
#include <QVector>
#include <functional>

#include "gui/models/figures.h"

namespace zplan::gui {

struct Tick {
  double value{};  ///< in the model's figures
  QString text;
};

/// From nothing to `most`, at most `count` steps of 1, 2 or 5 of a power of ten of the scale's unit. The last
/// one names the unit.
[[nodiscard]] QVector<Tick> round_ticks(double most, const Scale& scale, int count);

/// A limit on a horizontal axis: its line, from its label down or in its row alone.
struct Limit {
  Mark mark;
  double x{};
  int tier{};    ///< of labels, 0 next to the plot; −1: it has no room
  QRectF label;  ///< empty where there is no room
  QString text;
};

/// Labels beside their lines, in as few tiers as it takes to keep lines and labels apart, at most three.
/// `area`: above the plot, the tiers from its bottom up.
[[nodiscard]] QVector<Limit> place_limits(const QVector<Mark>& marks,
                                          const std::function<double(double)>& x_of, double left,
                                          double right, double bottom, double line,
                                          const std::function<double(const QString&)>& width_of);

/// Tiers that limits take.
[[nodiscard]] int tiers(const QVector<Limit>& limits);

}  // namespace zplan::gui
