#include "harness/statistics.h"

#include <algorithm>
#include <numeric>

namespace zplan::bench {

Statistics statistics(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto quantile = [&samples](double q) {
    const double at = static_cast<double>(samples.size() - 1) * q;
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, samples.size() - 1);
    return samples[below] + (samples[above] - samples[below]) * (at - static_cast<double>(below));
  };
  return {.median = quantile(0.5),
          .p10 = quantile(0.1),
          .p90 = quantile(0.9),
          .lowest = samples.front(),
          .highest = samples.back(),
          .mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size())};
}

Json statistics_json(const Statistics& s) {
  return {{"median", s.median}, {"p10", s.p10},         {"p90", s.p90},
          {"lowest", s.lowest}, {"highest", s.highest}, {"mean", s.mean}};
}

}  // namespace zplan::bench
