#pragma once
// Divides a model among data-parallel ranks as ZeRO does.

#include <vector>

#include "planner/sharding/optimizer_state.h"
#include "planner/sharding/shard.h"

namespace zplan {

/// With whom a rank shares a parameter: with its data-parallel group, or, of experts under expert
/// parallelism, with the ranks that have the same. What AutoEP and AutoTP make anew, routers and divided
/// weights, is partitioned by the engine behind zero.Init, over a data-parallel group of its own.
enum class Sharing : std::uint8_t { dense, remade, experts };
[[nodiscard]] Sharing sharing_of(const RankTensor& tensor, const Training& training,
                                 const Strategy& strategy);
/// Returns the number of ranks that share such tensors at ZeRO 1 to 3. zero.Init partitions tensors that are
/// not AutoEP's over all ranks, including those of a tensor-parallel group.
[[nodiscard]] std::int64_t ranks_of(Sharing sharing, const Training& training, const Strategy& strategy);
/// Returns the process group of ranks that share such tensors.
[[nodiscard]] Group group_of(Sharing sharing);
/// Returns the number of ranks that share `tensor`.
[[nodiscard]] std::int64_t ranks_of(const RankTensor& tensor, const Training& training,
                                    const Strategy& strategy);

/// A group of parameters that DeepSpeed's optimizer holds in one flat tensor: everything, or, under expert
/// parallelism, what is not an expert's, and experts in groups of at most 178,956,971 elements. The groups of
/// an optimizer that the script makes itself (torch's fused one) stay as they are. Source: DeepSpeed 0.19.8
/// moe/utils.py split_params_into_different_moe_groups_for_optimizer, runtime/engine.py _configure_optimizer.
struct OptimizerGroup {
  Sharing sharing{};
  std::vector<std::size_t> tensors{};  ///< of RankModel, in order
  Elements elements{};                 ///< of them all
  bool operator==(const OptimizerGroup&) const = default;
};
[[nodiscard]] std::vector<OptimizerGroup> optimizer_groups(const RankModel& model, const Training& training,
                                                           const Strategy& strategy);

/// Returns the start of the next parameter in the flat group of ZeRO 1 and 2, of which `end` elements are
/// filled: `end`, or the next 16 B with parameter_alignment.
[[nodiscard]] Elements flat_start(Elements end, const Training& training, const Strategy& strategy);

/// A group padded to a multiple of 2·N elements and divided by N, as ZeRO 1 and 2 slice it; N ranks share it.
/// Source: DeepSpeed 0.19.8 stage_1_and_2.py (nccl_start_alignment_factor = 2).
[[nodiscard]] Elements zero12_slice(const RankModel& model, const OptimizerGroup& group,
                                    const Training& training, const Strategy& strategy);

/// The slice of every rank, in order.
[[nodiscard]] std::vector<Slice> slices(const RankModel& model, const Training& training,
                                        const Strategy& strategy);

/// Returns a bound of every rank's slice: the most elements that touch one, and the largest piece in one.
[[nodiscard]] Slice worst_slice(const RankModel& model, const Training& training, const Strategy& strategy);

/// Σ ⌈n/N⌉ over tensors: what one rank holds of them at ZeRO-3.
[[nodiscard]] Elements zero3_shard(const RankModel& model, const Training& training, const Strategy& strategy,
                                   bool trainable);

/// Parameters that ZeRO-3 keeps whole: Σ N·⌈n/N⌉ over tensors of at most persistence_threshold elements.
[[nodiscard]] Elements persistent_parameters(const RankModel& model, const Training& training,
                                             const Strategy& strategy);

/// The buffer that gradients are reduced through: reduce_bucket_size elements whole, twice where ZeRO 1 or 2
/// overlaps (one fills while the other is sent). ZeRO 3 makes it at initialisation and keeps it, ZeRO 1 and 2
/// in the backward.
[[nodiscard]] Bytes gradient_bucket(const Training& training, const Strategy& strategy);

/// Sub-groups that ZeRO-3's optimizer updates one after the other, in elements of this rank's shards. A
/// sub-group is closed once it reaches sub_group_size, so it can exceed it.
struct SubGroup {
  Elements elements;
  Sharing sharing{};
  bool operator==(const SubGroup&) const = default;
};
[[nodiscard]] std::vector<SubGroup> sub_groups(const RankModel& model, const Training& training,
                                               const Strategy& strategy);

/// buffer_size of offload_param on NVMe: 1e8 elements, or the largest shard of a tensor where that is larger,
/// since DeepSpeed stops otherwise. Source: DeepSpeed 0.19.8 offload_config.py,
/// swap_tensor/partitioned_param_swapper.py.
[[nodiscard]] Elements swap_buffer_size(const RankModel& model, const Training& training,
                                        const Strategy& strategy);

/// The largest of sub_groups.
[[nodiscard]] Elements largest_sub_group(const RankModel& model, const Training& training,
                                         const Strategy& strategy);

[[nodiscard]] Shard deepspeed_shard(const RankModel& model, const Training& training,
                                    const Strategy& strategy);
[[nodiscard]] std::vector<OptimizerTensor> deepspeed_optimizer_tensors(const RankModel& model,
                                                                       const Training& training,
                                                                       const Strategy& strategy);

}  // namespace zplan
