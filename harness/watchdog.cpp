#include "harness/watchdog.h"

#include <fmt/format.h>

#include <csignal>

namespace zplan::bench {

namespace {

using Clock = std::chrono::steady_clock;

// The only type that a signal handler may write.
volatile std::sig_atomic_t signals_soon = 0, signals_now = 0;

void note_soon(int) { signals_soon = signals_soon + 1; }
void note_now(int) { signals_now = 1; }

/// Time in which a rank may finish its current call after a signal to end at once.
constexpr std::chrono::milliseconds kGrace{300};

}  // namespace

StopSignals::StopSignals() {
  std::signal(SIGINT, note_soon), std::signal(SIGUSR1, note_soon), std::signal(SIGTERM, note_now);
}

StopSignals::Asked StopSignals::asked() {
  if (signals_now != 0 || signals_soon > 1) return Asked::now;
  return signals_soon != 0 ? Asked::soon : Asked::nothing;
}

Watchdog::Watchdog(Seconds timeout, Seconds delay, GiveUp give_up)
    : timeout_(timeout.value),
      delay_(delay.value),
      give_up_(std::move(give_up)),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Watchdog::begin(const std::string& what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
  tick();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = moves_.load();
  Clock::time_point moved = Clock::now(), told = Clock::time_point::max();
  while (!ended_.wait_for(lock, std::chrono::milliseconds(50), [this] { return ends_; })) {
    const Clock::time_point now = Clock::now();
    if (const std::uint64_t moves = moves_.load(); moves != seen) seen = moves, moved = now;
    if (StopSignals::asked() == StopSignals::Asked::now) {
      told = std::min(told, now);
      if (now - told > kGrace) return give_up_("interrupted in " + what_);
    }
    if (std::chrono::duration<double>(now - moved).count() > timeout_ + delay_)
      return give_up_(fmt::format("{} has not ended for {:g} s: a rank is gone or hangs", what_, timeout_));
  }
}

}  // namespace zplan::bench
