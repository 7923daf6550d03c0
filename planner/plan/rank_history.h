#pragma once
// The predicted history of the allocator of a plan's neediest rank.

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/simulation/memory_history.h"

namespace zplan {

/// The history of one rank over initialisation and optimizer steps, the last of which is the steady one, on a
/// GPU with memory to spare. Its highest sum of segments is `peak_reserved` of the plan's memory; the highest
/// sum of requested blocks in the last step is the plan's peak without rounding and without what lies outside
/// PyTorch.
struct RankHistory {
  RankClass place;
  MemoryHistory memory;
  std::vector<std::string> modules;  ///< by cause: "model.layers.3.self_attn.q_proj"; empty: none runs
};

/// Returns the history of the neediest rank of `plan`, which was made for this question.
[[nodiscard]] RankHistory rank_history(const Model& model, const Cluster& cluster, const Training& training,
                                       const Plan& plan);
/// Returns that of the ranks of class `place`.
[[nodiscard]] RankHistory rank_history(const Model& model, const Cluster& cluster, const Training& training,
                                       const Strategy& strategy, const RankClass& place);

}  // namespace zplan
