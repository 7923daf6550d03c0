#pragma once
// Who holds what: bytes that one rank holds between optimizer steps, with DeepSpeed's grouping and padding.
// Checked to the byte against DeepSpeed itself (tests/planner/held_bytes_test.cpp).

#include <vector>

#include "planner/sharding/rank_model.h"

namespace zplan {

/// The slice of the flattened trainable parameters that one rank's optimizer updates at ZeRO 1 and 2.
struct Slice {
  Elements size;        ///< P: every rank's slice, padding included
  Elements touching;    ///< elements of the parameters that touch it, whole: their gradients are kept whole
  Elements largest;     ///< the largest piece of one parameter inside it
  std::int64_t rank{};  ///< whose it is, in the data-parallel group
  bool operator==(const Slice&) const = default;
};

/// What one rank holds. Where it lies (device, host, disk) is the strategy's: see memory/.
struct Shard {
  Elements optimizer_elements;  ///< that this rank updates, padding included
  Bytes parameters;             ///< trainable and frozen, as stored between steps
  Bytes persistent_parameters;  ///< ZeRO-3: small parameters kept whole beside their shard
  Bytes master_weights;         ///< the optimizer's copy: fp32, or 16-bit where that is dropped
  Bytes moments;                ///< optimizer states
  Bytes gradients;              ///< held from initialisation on (ZeRO-3; ZeRO-1 with fp32 accumulation)
  Bytes bucket;                 ///< held from initialisation on (ZeRO-3)
  bool operator==(const Shard&) const = default;
};

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

/// Optimizer states of `elements` elements in one flat group, in fp32 where they are not packed: Adam 8 B,
/// SGD 0 or 4 B, Lion and Adafactor 4 B (ZeRO flattens parameters, so nothing can be factored), Muon 4 B for
/// matrices and 8 B for the rest, bitsandbytes' as optimizer_state_blocks. Source: Rajbhandari et al. 2020
/// section 3.1; bytes measured for 15 optimizers (docs/states.md).
[[nodiscard]] Bytes optimizer_states(const RankModel& model, const Training& training, Elements elements);

[[nodiscard]] Shard make_shard(const RankModel& model, const Training& training, const Strategy& strategy);

/// The state as ZeRO papers tabulate it: bytes per parameter times Ψ over N, nothing padded, no buffers.
struct SteadyState {
  Bytes parameters, gradients, optimizer_states;
  bool operator==(const SteadyState&) const = default;
};
[[nodiscard]] SteadyState steady_state(const RankModel& model, const Training& training,
                                       const Strategy& strategy);

}  // namespace zplan
