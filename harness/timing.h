#pragma once
// Timing of calls, and waits that end.

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "models/base/quantity.h"

namespace zplan::bench {

using Clock = std::chrono::steady_clock;

/// Returns the seconds of each of `times` calls by the host's clock, as OSU's micro-benchmarks time blocking
/// collectives. `between` runs after each call and is not counted.
template <class Issue, class Between>
[[nodiscard]] std::vector<double> time_each(std::int64_t times, const Issue& issue, const Between& between) {
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(times));
  for (std::int64_t i = 0; i < times; ++i) {
    const Clock::time_point begin = Clock::now();
    issue();
    samples.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    between();
  }
  return samples;
}

[[nodiscard]] inline Clock::duration to_duration(Seconds time) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time.value));
}

/// Calls `done` until it returns true, without a pause in the first 2 ms. Returns false after `limit`.
template <class Done>
[[nodiscard]] bool wait_until(Seconds limit, Done&& done) {
  const Clock::time_point start = Clock::now();
  while (!done()) {
    const Clock::duration waited = Clock::now() - start;
    if (waited > to_duration(limit)) return false;
    if (waited > std::chrono::milliseconds(2)) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace zplan::bench
