#pragma once
// A rank must not wait forever for one that is gone, and what was measured must not be lost.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "models/base/quantity.h"

namespace zplan::bench {

/// Watches from a thread of its own. Where no call ends within the timeout it calls `give_up` with what the
/// rank was doing; that saves the results, says why and ends the process.
class Watchdog {
 public:
  using GiveUp = std::function<void(const std::string& reason)>;
  /// `delay` is added to the timeout: ranks that wait for the same one do not all print at once.
  Watchdog(Seconds timeout, Seconds delay, GiveUp give_up);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// From here on the rank does this: "all_reduce of 1 MiB in the world of 4".
  void begin(const std::string& what);
  /// A call came back. For the innermost loop: one addition.
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
