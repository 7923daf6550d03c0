#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace zplan::bench {

/// Seconds of each of `times` calls, by the host's clock: each call by itself, with `between` behind it,
/// which is not counted. As OSU's micro-benchmarks time blocking collectives.
template <class Issue, class Between>
[[nodiscard]] std::vector<double> time_each(std::int64_t times, const Issue& issue, const Between& between) {
  using Clock = std::chrono::steady_clock;
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

}  // namespace zplan::bench
