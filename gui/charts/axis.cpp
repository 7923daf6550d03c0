#include "gui/charts/axis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "models/base/format.h"

namespace zplan::gui {

namespace {

constexpr int kMostTiers = 3;
/// Pixels between a line and its label.
constexpr double kGap = 4;

/// Returns the smallest of 1, 2, 5, 10, … that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/// Returns the number with its thousands separated, as in tables.
QString digits(double value) {
  return value >= 1000 ? qt(group_digits(std::llround(value))) : QString::number(value, 'g', 6);
}

bool is_free(const QRectF& label, int tier, double x, const QVector<Limit>& placed) {
  return std::none_of(placed.begin(), placed.end(), [&](const Limit& other) {
    if (other.tier < 0) return false;
    const bool line_through_label =
        other.tier >= tier && other.x > label.left() - 1 && other.x < label.right() + 1;
    const bool under_line = other.tier < tier && x > other.label.left() - 1 && x < other.label.right() + 1;
    return other.label.intersects(label) || line_through_label || under_line;
  });
}

/// Tries all ways to place a few labels; keeps the one that leaves out fewest and uses the fewest tiers.
struct Places {
  double left, right, bottom, line;
  std::vector<double> widths;
  // Vectors without shared data: `place` holds on to an element while it goes on.
  std::vector<Limit> limits{}, best{};
  std::pair<int, int> cost{std::numeric_limits<int>::max(),
                           0};  ///< labels left out and sum of tiers of the best

  void place(std::ptrdiff_t at) {
    // Only the first limits have labels: the number of ways grows exponentially.
    constexpr std::ptrdiff_t kMost = 4;
    if (at >= std::min(kMost, std::ssize(limits))) return keep();
    Limit& limit = limits[static_cast<std::size_t>(at)];
    const QVector<Limit> before(limits.begin(), limits.begin() + at);
    const double width = widths[static_cast<std::size_t>(at)];
    for (int tier = 0; tier < kMostTiers; ++tier)
      for (const double from : {limit.x - kGap - width, limit.x + kGap}) {
        const QRectF label(from, bottom - (tier + 1) * line, width, line);
        if (label.left() < left || label.right() > right || !is_free(label, tier, limit.x, before)) continue;
        limit.tier = tier, limit.label = label;
        place(at + 1);
      }
    limit.tier = -1, limit.label = {};
    place(at + 1);
  }
  void keep() {
    std::pair<int, int> now{0, 0};
    for (const Limit& each : limits) now.first += each.tier < 0, now.second += std::max(0, each.tier);
    if (now < cost) cost = now, best = limits;
  }
};

}  // namespace

QVector<Tick> round_ticks(double most, const Scale& scale, int count) {
  QVector<Tick> ticks;
  if (!(most > 0) || !std::isfinite(most)) return {{0, QStringLiteral("0 ") + scale.name}};
  const double step = round_step(most / scale.unit / std::max(1, count));
  for (int i = 0; i * step * scale.unit <= most * (1 + 1e-9); ++i)
    ticks.push_back({i * step * scale.unit, digits(i * step)});
  ticks.back().text += ' ' + scale.name;
  return ticks;
}

QVector<Limit> place_limits(const QVector<Mark>& marks, const std::function<double(double)>& x_of,
                            double left, double right, double bottom, double line,
                            const std::function<double(const QString&)>& width_of) {
  Places places{left, right, bottom, line, {}};
  for (const Mark& mark : marks) {
    const QString text = mark.name + ' ' + mark.text;
    places.limits.push_back({mark, x_of(mark.value), -1, {}, text});
    places.widths.push_back(width_of(text));
  }
  places.place(0);
  return {places.best.begin(), places.best.end()};
}

int tiers(const QVector<Limit>& limits) {
  int most = 0;
  for (const Limit& each : limits) most = std::max(most, each.tier + 1);
  return most;
}

}  // namespace zplan::gui
