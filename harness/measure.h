#pragma once
// Checks, times and checks again one operation at one size on one set of groups.

#include "harness/session.h"

namespace zplan::bench {

/// Times and checks of one operation at one size.
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

/// Measures one call. Every rank calls it; rank 0 uses the figures. Makes fewer calls than requested if they
/// would take longer than `longest`. Reports wrong elements on stderr.
[[nodiscard]] Measurement measure(Session& session, const Team& team, const Work& work, const Arena& arena,
                                  std::optional<Seconds> longest);

[[nodiscard]] Json measurement_json(const Measurement& measurement);

/// The check of one call's result, over all ranks.
struct Verdict {
  std::int64_t checked{}, wrong{};  ///< over all ranks
  std::string first;                ///< a line for stderr; empty: nothing is wrong
};
/// Makes the call once on new data and compares every element of every rank with the correct one.
[[nodiscard]] Verdict check_once(Session& session, const Team& team, const Work& work, const Arena& arena);

/// Addresses of a call's data in the arena.
struct Placed {
  std::byte* send;
  std::byte* receive;
};
[[nodiscard]] Placed place(const Work& work, const Communicator& group, const Arena& arena);

/// "all_reduce of 262144 float32 (1 MiB), in place, in the world of 4"
[[nodiscard]] std::string name_of(const Work& work, const Groups& groups);

/// Measures all sizes, types, placements and groups of the options. Passes each to the recorder and to
/// `tell`. Returns false if a result was wrong.
[[nodiscard]] bool sweep(Session& session, const std::function<void(const Measurement&)>& tell);

}  // namespace zplan::bench
