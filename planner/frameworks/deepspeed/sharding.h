#pragma once
// How ZeRO divides a model among data-parallel ranks.

#include <vector>

#include "planner/sharding/optimizer_state.h"
#include "planner/sharding/shard.h"

namespace zplan {

/// Where the next parameter starts in the flat group of ZeRO 1 and 2 when `end` elements are filled: there,
/// or at the next 16 B with parameter_alignment.
[[nodiscard]] Elements flat_start(Elements end, const Training& training, const Strategy& strategy);

/// Ψ padded to a multiple of 2·N elements and divided by N, as ZeRO 1 and 2 slice it; N = data_parallel.
/// Source: DeepSpeed 0.19.8 stage_1_and_2.py (nccl_start_alignment_factor = 2).
[[nodiscard]] Elements zero12_slice(const RankModel& model, const Training& training,
                                    const Strategy& strategy);

/// The slice of every rank, in order.
[[nodiscard]] std::vector<Slice> slices(const RankModel& model, const Training& training,
                                        const Strategy& strategy);

/// What no rank's slice exceeds: the most that touches one, and the largest piece in one.
[[nodiscard]] Slice worst_slice(const RankModel& model, const Training& training, const Strategy& strategy);

/// Σ ⌈n/N⌉ over tensors: what one rank holds of them at ZeRO-3.
[[nodiscard]] Elements zero3_shard(const RankModel& model, std::int64_t data_parallel, bool trainable);

/// Parameters that ZeRO-3 keeps whole: Σ N·⌈n/N⌉ over tensors of at most persistence_threshold elements.
[[nodiscard]] Elements persistent_parameters(const RankModel& model, const Strategy& strategy);

/// The buffer that gradients are reduced through: reduce_bucket_size elements whole, twice where ZeRO 1 or 2
/// overlaps (one fills while the other is sent). ZeRO 3 makes it at initialisation and keeps it, ZeRO 1 and 2
/// in the backward.
[[nodiscard]] Bytes gradient_bucket(const Training& training, const Strategy& strategy);

/// Sub-groups that ZeRO-3's optimizer updates one after the other, in elements of this rank's shards. A group
/// is closed once it reaches sub_group_size, so it can exceed it.
[[nodiscard]] std::vector<Elements> sub_groups(const RankModel& model, const Strategy& strategy);

/// buffer_size of offload_param on NVMe: 1e8 elements, or the largest shard of a tensor where that is larger,
/// since DeepSpeed stops otherwise. Source: DeepSpeed 0.19.8 offload_config.py,
/// swap_tensor/partitioned_param_swapper.py.
[[nodiscard]] Elements swap_buffer_size(const RankModel& model, const Strategy& strategy);

/// The largest of sub_groups.
[[nodiscard]] Elements largest_sub_group(const RankModel& model, const Strategy& strategy);

[[nodiscard]] Shard deepspeed_shard(const RankModel& model, const Training& training,
                                    const Strategy& strategy);
[[nodiscard]] std::vector<OptimizerTensor> deepspeed_optimizer_tensors(const RankModel& model,
                                                                       const Training& training,
                                                                       const Strategy& strategy);

}  // namespace zplan
