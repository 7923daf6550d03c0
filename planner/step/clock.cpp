#include "planner/step/clock.h"

#include <algorithm>

namespace zplan {

/// Most calls are like the last of their size, operation and number on the tape.
std::int32_t Clock::number(const Call& call, std::int32_t exchange) {
  const TimedCall wanted{call, exchange};
  const std::uint64_t kind =
      (static_cast<std::uint64_t>(exchange + 1) << 8) + static_cast<std::uint64_t>(call.operation);
  const std::uint64_t key =
      (static_cast<std::uint64_t>(call.elements.value) + (kind << 44)) * 0x9e3779b97f4a7c15ULL;
  std::int32_t& last = last_[(key >> 58) ^ static_cast<std::uint64_t>(call.phase == Phase::backward)];
  if (last > 0 && program_.calls[static_cast<std::size_t>(last - 1)] == wanted) return last - 1;
  last = find_or_add(wanted) + 1;
  return last - 1;
}

std::int32_t Clock::find_or_add(const TimedCall& wanted) {
  const auto known = std::find(program_.calls.rbegin(), program_.calls.rend(), wanted);
  if (known != program_.calls.rend())
    return static_cast<std::int32_t>(std::distance(known, program_.calls.rend()) - 1);
  program_.calls.push_back(wanted);
  return static_cast<std::int32_t>(program_.calls.size() - 1);
}

}  // namespace zplan
