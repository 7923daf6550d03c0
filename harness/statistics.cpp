#include "harness/statistics.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "hardware_profiles/bench_result.h"

namespace zplan::bench {

Statistics statistics(std::vector<double> samples) {
  const TimeStatistics of = statistics_of(std::move(samples));
  return {.median = of.median.value,
          .p10 = of.p10.value,
          .p90 = of.p90.value,
          .lowest = of.lowest.value,
          .highest = of.highest.value,
          .mean = of.mean.value};
}

Json statistics_json(const Statistics& s) {
  return {{"median", s.median}, {"p10", s.p10},         {"p90", s.p90},
          {"lowest", s.lowest}, {"highest", s.highest}, {"mean", s.mean}};
}

}  // namespace zplan::bench
