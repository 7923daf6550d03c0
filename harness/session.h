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

/// Groups of ranks, with the communicator of the one that this rank is in.
struct Team {
  Groups groups;
  std::vector<int> ranks;  ///< of this rank's group
  std::unique_ptr<Communicator> communicator;
  std::int64_t at_once{1}, nodes{1};
};

/// Two buffers that hold the largest message, or less if there is no memory for it.
struct Arena {
  Memory send, receive;
  [[nodiscard]] Bytes size() const { return send.size(); }
};

/// Returns for each call the time of its slowest rank.
[[nodiscard]] std::vector<double> slowest(const std::vector<std::vector<double>>& by_rank);

/// Holds options, backend, groups and budget of a run, on one rank.
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

  /// Returns the team of these groups, which it makes once. `place` names the option in errors.
  [[nodiscard]] Team& team(const Groups& groups, std::string_view place);
  /// Allocates an arena that fits in the memory of all ranks: halves `size` until it does, and notes that.
  /// Throws OutOfMemory below 1 KiB.
  [[nodiscard]] Arena arena(Bytes size);

  /// Returns true if all ranks go on. Rank 0 decides for all, by budget and signals.
  [[nodiscard]] bool goes_on();
  /// Returns why the run stops early, empty if it does not.
  [[nodiscard]] const std::string& stopped() const { return stopped_; }
  /// Returns one of `parts` equal shares of the budget that is left, nothing without a budget.
  [[nodiscard]] std::optional<Seconds> share_of_budget(std::int64_t parts) const;

  /// Returns the samples of all ranks, by rank. All have timed the same calls.
  [[nodiscard]] std::vector<std::vector<double>> exchange(const std::vector<double>& samples);

  /// Runs `act` on rank 0, while the others get a message every second, so that they do not time out. Returns
  /// on all ranks the text of the InputError that `act` threw, empty if it threw none.
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
