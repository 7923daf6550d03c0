#include "harness/statistics.h"

#include <nlohmann/json.hpp>

namespace zplan::bench {

Json statistics_json(const TimeStatistics& of) {
  return {{"median", of.median.value}, {"p10", of.p10.value},         {"p90", of.p90.value},
          {"lowest", of.lowest.value}, {"highest", of.highest.value}, {"mean", of.mean.value}};
}

}  // namespace zplan::bench
