#pragma once
// The state that all measurements of a run share.

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/backend.h"
#include "harness/options.h"
#include "harness/recorder.h"
#include "harness/sent.h"
#include "harness/watchdog.h"
#include "harness/work.h"

namespace zplan::bench {

/// Groups that were made, with the communicator of the one that this rank is in.
struct Team {
  Groups groups;
  std::vector<int> ranks;  ///< of this rank's group
  std::unique_ptr<Communicator> communicator;
  std::int64_t at_once{1}, nodes{1};
};

/// Two buffers that hold the largest message; less where there is no memory for it.
struct Arena {
  Memory send, receive;
  [[nodiscard]] Bytes size() const { return send.size(); }
};

/// Returns for each call the time of its slowest rank.
[[nodiscard]] std::vector<double> slowest(const std::vector<std::vector<double>>& by_rank);

class Session {
 public:
  Session(const Options& o, Backend& b, Watchdog& w, Recorder& r, std::vector<std::string> hosts_by_rank)
      : options(o), backend(b), watchdog(w), recorder(r), hosts(std::move(hosts_by_rank)) {}

  const Options& options;
  Backend& backend;
  Watchdog& watchdog;
  Recorder& recorder;                    ///< of rank 0; the others' go nowhere
  const std::vector<std::string> hosts;  ///< by rank

  [[nodiscard]] Control& control() { return backend.control(); }
  [[nodiscard]] bool is_first() { return control().rank() == 0; }
  [[nodiscard]] std::int64_t ranks() { return control().size(); }

  /// Made once each.
  [[nodiscard]] Team& team(const Groups& groups, std::string_view place);
  /// Allocates an arena that fits in the memory of all ranks: halves `size` until it does, and notes that.
  /// Throws OutOfMemory below 1 KiB.
  [[nodiscard]] Arena arena(Bytes size);

  /// Returns true if all ranks go on. Rank 0 decides for all, by budget and signals.
  [[nodiscard]] bool goes_on();
  /// Why not; empty: nothing stopped it.
  [[nodiscard]] const std::string& stopped() const { return stopped_; }
  /// Returns one of `parts` equal shares of the budget that is left, nothing without a budget.
  [[nodiscard]] std::optional<Seconds> share_of_budget(std::int64_t parts) const;

  /// Every rank's samples of the same calls, by rank.
  [[nodiscard]] std::vector<std::vector<double>> exchange(const std::vector<double>& samples);

  /// Rank 0 does what takes long; the others hear from it every second, so that they do not time out. Returns
  /// the text of the InputError that came of it, to all; empty: none.
  [[nodiscard]] std::string on_rank_0(const std::function<void()>& act);

  std::function<void(const std::string&)> progress{[](const std::string&) {}};  ///< of rank 0
  SentCounter sent{};                                                           ///< of this host

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::string reason_to_stop() const;

  std::deque<Team> teams_;  ///< references to them stay
  Clock::time_point started_{Clock::now()};
  std::string stopped_;
};

}  // namespace zplan::bench
