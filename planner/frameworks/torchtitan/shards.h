#pragma once
// Shards of the parameters of torchtitan's units under FSDP2: experts of expert-parallel ranks are sharded
// among other ranks than the rest.

#include <vector>

#include "planner/sharding/optimizer_state.h"
#include "planner/sharding/shard.h"

namespace zplan::titan {

/// True if ranks divide the layers' experts: those are a group of parameters of their own.
[[nodiscard]] inline bool divides_experts(const ParallelLayout& layout) { return layout.expert > 1; }
/// Returns the ranks that share one copy of a parameter.
[[nodiscard]] std::int64_t shard_ranks(const RankTensor& tensor, const ParallelLayout& layout);
/// True if the parameter is sharded along its second dimension: experts, where there are more ranks.
[[nodiscard]] bool shards_widths(const RankTensor& tensor, const ParallelLayout& layout);
/// Returns what the first rank holds of a parameter, padded. Source: torchtitan 0.3.0 distributed/fsdp.py
/// apply_fsdp_to_decoder.
[[nodiscard]] Elements shard_of(const RankTensor& tensor, const ParallelLayout& layout);
/// Returns the shards that the optimizer of a rank updates, in order: of all parameters that get gradients.
[[nodiscard]] std::vector<OptimizerTensor> optimized_shards(const RankModel& model, const Strategy& strategy);
/// Returns what a rank holds.
[[nodiscard]] Shard held_shard(const RankModel& model, const Training& training, const Strategy& strategy);

}  // namespace zplan::titan
