#pragma once
// Waiting for a GPU without a call that could wait forever.

#include <chrono>
#include <thread>

#include "models/base/quantity.h"

namespace zplan::bench {

using Clock = std::chrono::steady_clock;

[[nodiscard]] inline Clock::duration to_duration(Seconds time) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time.value));
}

/// Asks `done` until it says so, at first without a pause; false: `limit` is over.
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
