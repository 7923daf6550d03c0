#pragma once

#include "hardware_profiles/bench_result.h"
#include "models/base/json_reader.h"

namespace zplan::bench {

/// Seconds, as a result has them.
[[nodiscard]] Json statistics_json(const TimeStatistics& of);

}  // namespace zplan::bench
