#pragma once

#include <vector>

#include "models/base/json_reader.h"

namespace zplan::bench {

/// Of the samples of one measurement, in their unit. Quantile q lies at (n−1)·q of the ordered samples,
/// straight between its neighbours.
struct Statistics {
  double median{}, p10{}, p90{}, lowest{}, highest{}, mean{};
  bool operator==(const Statistics&) const = default;
};

/// Of at least one sample.
[[nodiscard]] Statistics statistics(std::vector<double> samples);
[[nodiscard]] Json statistics_json(const Statistics& statistics);

}  // namespace zplan::bench
