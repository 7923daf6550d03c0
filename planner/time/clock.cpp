#include "planner/time/clock.h"

#include <algorithm>

namespace zplan {

/// Most calls are like one of the last few.
std::int32_t Clock::number(const Call& call, std::int32_t exchange) {
  const TimedCall wanted{call, exchange};
  const auto known = std::find(program_.calls.rbegin(), program_.calls.rend(), wanted);
  if (known != program_.calls.rend())
    return static_cast<std::int32_t>(std::distance(known, program_.calls.rend()) - 1);
  program_.calls.push_back(wanted);
  return static_cast<std::int32_t>(program_.calls.size() - 1);
}

}  // namespace zplan
