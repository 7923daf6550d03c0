#pragma once
// Ends a rank that would wait forever for one that is gone, without losing its measurements.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "models/base/quantity.h"

namespace zplan::bench {

/// Watches the rank from a thread of its own. If no call ends within the timeout, it calls `give_up` with
/// what the rank was doing, which saves the results, reports the reason and ends the process.
class Watchdog {
 public:
  using GiveUp = std::function<void(const std::string& reason)>;
  /// `delay` is added to the timeout, so that ranks that wait for the same one do not all print.
  Watchdog(Seconds timeout, Seconds delay, GiveUp give_up);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Sets what the rank does from here on: "all_reduce of 1 MiB in the world of 4".
  void begin(const std::string& what);
  /// Records that a call has ended. Takes one addition, for the innermost loop.
  void tick() noexcept { moves_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void watch();

  const double timeout_, delay_;
  const GiveUp give_up_;
  std::atomic<std::uint64_t> moves_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string what_{"starting"};
  bool ends_{};
  std::thread thread_;
};

/// Signals that ask a run to end: SIGINT and SIGUSR1 after the measurement at hand; SIGTERM at once, since
/// who sends it (mpirun, Slurm) kills soon after.
class StopSignals {
 public:
  enum class Asked { nothing, soon, now };
  StopSignals();
  [[nodiscard]] static Asked asked();
};

}  // namespace zplan::bench
