#pragma once
// One operation at one size on one set of groups: checked, timed, checked again.

#include "harness/session.h"

namespace zplan::bench {

struct Measurement {
  Work work;
  Groups groups;
  std::int64_t nodes{1}, at_once{1};
  std::int64_t iterations{}, warmup{};
  std::vector<double> samples{};  ///< seconds of each call, of the slowest rank
  double mean_over_ranks{};  ///< median over the calls of the mean over ranks: what OSU and nccl-tests print
  std::int64_t checked{}, wrong{};
  std::optional<SentBytes> sent{};  ///< over all timed calls, by all hosts; absent: not counted
};

/// Called by every rank; the figures are rank 0's to use. `longest`: the calls are fewer than asked for where
/// they would take more than that. Wrong elements are reported on stderr by rank, element and collective.
[[nodiscard]] Measurement measure(Session& session, const Team& team, const Work& work, const Arena& arena,
                                  std::optional<Seconds> longest);

[[nodiscard]] Json measurement_json(const Measurement& measurement);

/// The check of one call's result, over all ranks.
struct Verdict {
  std::int64_t checked{}, wrong{};  ///< over all ranks
  std::string first;                ///< a line for stderr; empty: nothing is wrong
};
/// Does the call once on fresh data and compares every element of every rank with what it must be.
[[nodiscard]] Verdict check_once(Session& session, const Team& team, const Work& work, const Arena& arena);

/// Addresses of a call's data in the arena.
struct Placed {
  std::byte* send;
  std::byte* receive;
};
[[nodiscard]] Placed place(const Work& work, const Communicator& group, const Arena& arena);

/// "all_reduce of 262144 float32 (1 MiB), in place, in the world of 4"
[[nodiscard]] std::string name_of(const Work& work, const Groups& groups);

/// Measures all sizes, types, placements and groups that the options ask for; each goes into the recorder and
/// to `tell`. False where some result was wrong.
[[nodiscard]] bool sweep(Session& session, const std::function<void(const Measurement&)>& tell);

}  // namespace zplan::bench
