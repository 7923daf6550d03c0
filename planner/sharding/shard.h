#pragma once
// Who holds what: bytes that one rank holds between optimizer steps, with DeepSpeed's grouping and padding.
// Checked to the byte against DeepSpeed itself (tests/planner/frameworks/deepspeed/zero/held_bytes_test.cpp).

#include <cstdint>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

struct RankModel;
struct Strategy;
struct Training;

/// The slice of one flattened group of trainable parameters that one rank's optimizer updates at ZeRO 1
/// and 2.
struct GroupSlice {
  Elements size;        ///< P: every rank's slice, padding included
  Elements touching;    ///< elements of the parameters that touch it, whole: their gradients are kept whole
  Elements largest;     ///< the largest piece of one parameter inside it
  std::int64_t rank{};  ///< whose it is, among those that share the group
  bool operator==(const GroupSlice&) const = default;
};

/// Slice is what one rank's optimizer updates at ZeRO 1 and 2: a slice of each group. Without expert
/// parallelism there is one group.
struct Slice {
  Elements size;        ///< of all groups
  Elements touching;    ///< likewise
  Elements largest;     ///< the largest piece of one parameter inside any
  std::int64_t rank{};  ///< whose it is, in the data-parallel group
  std::vector<GroupSlice> groups{};
  bool operator==(const Slice&) const = default;
};

/// Shard is what one rank holds. The strategy decides where it is: on the device, the host, a disk.
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

/// Optimizer states of `elements` elements in one flat group, in fp32 where they are not packed: Adam 8 B,
/// SGD 0 or 4 B, Lion and Adafactor 4 B (ZeRO flattens parameters, so nothing can be factored), Muon 4 B for
/// matrices and 8 B for the rest, bitsandbytes' as optimizer_state_blocks. Source: Rajbhandari et al. 2020
/// section 3.1; bytes measured for 15 optimizers (docs/states.md).
[[nodiscard]] Bytes optimizer_states(const RankModel& model, const Training& training, Elements elements);

/// Returns the shard of a rank that holds its rows of every parameter, divided among `ranks`, and updates
/// those: FSDP2; with one rank plain PyTorch.
[[nodiscard]] Shard shard_by_rows(const RankModel& model, const Training& training, std::int64_t ranks);

/// Device bytes that states alone take between steps: a lower bound of any peak that needs no run.
[[nodiscard]] Bytes held_states(const Shard& shard, const Strategy& strategy);

/// Returns a rank's shard under the training's framework.
[[nodiscard]] Shard make_shard(const RankModel& model, const Training& training, const Strategy& strategy);

/// The state as ZeRO papers tabulate it: bytes per parameter times Ψ over N, nothing padded, no buffers.
struct SteadyState {
  Bytes parameters, gradients, optimizer_states;
  bool operator==(const SteadyState&) const = default;
};
[[nodiscard]] SteadyState steady_state(const RankModel& model, const Training& training,
                                       const Strategy& strategy);

}  // namespace zplan
