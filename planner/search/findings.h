#pragma once
// What a plan means for the question that it answers: the figures that sentences are made of, and what would
// suffice where it does not fit.

#include <cstdint>
#include <optional>
#include <string>

#include "models/base/quantity.h"
#include "planner/plan/plan_figures.h"
#include "planner/plan/run_cost.h"

namespace zplan {

class PlanContext;

/// On what a plan would fit that misses on the device.
struct Enough {
  Bytes gpu;                          ///< the smallest, in whole GiB, as nvidia-smi totals it
  std::optional<std::int64_t> gpus;   ///< like these; absent where the miss is too large for it to be near
  std::optional<std::int64_t> nodes;  ///< that those take, where they are more than one
};
/// 16-bit weights of all experts, and of those of one rank.
struct DividedExperts {
  Bytes all, own;
};

struct Findings {
  std::optional<Enough> enough;           ///< of a plan that misses on the device
  std::optional<std::string> replicated;  ///< which replicated state is to blame
  std::optional<DividedExperts> experts;  ///< under expert parallelism
  const MomentMemory* worst_phase{};      ///< of a step that generates: the one that needs most of a GPU
  Bytes available, host_available;        ///< of a GPU and of a node's host, less the headroom
  Bytes missing, host_missing;            ///< for the steps; negative where so much is to spare
  std::int64_t gpus_per_node{1};
  const MomentMemory* short_moment{};  ///< the first that does not suffice; of the plan
  bool fails_as_it_starts{};           ///< Flattening::failing
  /// Of comparable runs; of a plan that fits and does not generate: none that does was measured, and an
  /// engine's share of memory is as it is given.
  std::optional<LikelyRange> peaks, speeds;
  std::optional<RunCost> cost;
};
/// `plan`, which outlives them, is one of `question`, and of `context`.
[[nodiscard]] Findings findings_of(const Plan& plan, const Question& question, PlanContext& context);

/// The fewest GPUs (same nodes' size, all else equal) on which the strategy fits, up to `most`; nothing where
/// none do.
[[nodiscard]] std::optional<std::int64_t> fewest_gpus(const Plan& plan, const Question& question,
                                                      PlanContext& context, std::int64_t most);

/// The smallest GPU (per GPU, as nvidia-smi totals it) on which the plan fits with the headroom.
[[nodiscard]] Bytes smallest_gpu(const Plan& plan, const Question& question);

}  // namespace zplan
