#include "planner/frameworks/deepspeed/zero/offload.h"

#include <algorithm>

#include "planner/frameworks/deepspeed/zero/sharding.h"

namespace zplan {

namespace {

/// ZeRO 1 and 2: master, fp32 gradient, 16-bit staging and the largest parameter pinned, Adam pageable; at
/// stage 2 accumulators of whole parameters where gradients accumulate.
void offload_slice(const StepInputs& in, HostTally& host) {
  const Bytes weight = weight_size(in.training);
  const Bytes master(in.shard.master_weights.value /
                     std::max<std::int64_t>(1, in.shard.optimizer_elements.value));
  host.pageable(in.shard.moments);
  for (const GroupSlice& slice : in.slice.groups)
    for (const Bytes element : {master, Bytes(4), weight}) host.pinned(slice.size * element);
  host.pinned(in.rank.largest_trainable * weight);
  if (in.strategy.zero_stage == 2 && in.strategy.gradient_accumulation_steps > 1)
    host.pinned(in.slice.touching * weight);
}

/// ZeRO 3: the flat gradient partition pinned, an fp32 gradient pinned per sub-group, master and Adam
/// pageable.
void offload_shard(const StepInputs& in, HostTally& host) {
  host.pinned(in.shard.gradients);
  if (in.strategy.offload_optimizer == OffloadDevice::cpu) {
    for (const SubGroup& group : sub_groups(in.rank, in.training, in.strategy))
      host.pinned(group.elements * Bytes(4));
    host.pageable(in.shard.master_weights + in.shard.moments);
    return;
  }
  // On NVMe the states pass through buffers: four (buffer_count) of the largest sub-group.
  constexpr std::int64_t kBuffers = 4;
  host.exact_pinned(largest_sub_group(in.rank, in.training, in.strategy) * Bytes(4 * kBuffers));
  host.nvme(in.shard.master_weights + in.shard.moments + in.shard.optimizer_elements * Bytes(4));
}

/// Parameters on the host: the flat buffer, and beside it the blocks in which each tensor's part was pinned
/// before it moved there; the pinned allocator keeps them. A tied head is pinned too before it becomes the
/// embedding.
void pin_parameters(const StepInputs& in, HostTally& host) {
  const Bytes weight = weight_size(in.training);
  host.pinned(in.shard.parameters);
  Bytes copy{};
  for (const RankTensor& tensor : in.rank.compared)
    copy += share(tensor.elements, in.strategy.layout.gradient_ranks()) * weight;
  if (copy.value > 0) host.pinned(copy);
  for (const RankTensor& tensor : in.rank.tensors)
    for (int times = in.model.shape.tied_embeddings && tensor.role == TensorRole::token_embedding ? 2 : 1;
         times > 0; --times)
      host.pinned(share(numbers_of(tensor), ranks_of(tensor, in.training, in.strategy)) *
                  (tensor.packed ? tensor.number : weight));
}

/// On NVMe: five buffers (buffer_count) of buffer_size elements; up to 1e9 elements stay in memory
/// (max_in_cpu).
void swap_parameters(const StepInputs& in, HostTally& host) {
  const Bytes weight = weight_size(in.training);
  host.exact_pinned(swap_buffer_size(in.rank, in.training, in.strategy) * weight * 5);
  host.pageable(std::min(Elements(1'000'000'000) * weight, in.shard.parameters));
  host.nvme(in.shard.parameters);
}

}  // namespace

void offload_deepspeed(const StepInputs& in, HostTally& host) {
  if (in.strategy.offload_optimizer != OffloadDevice::none)
    in.strategy.zero_stage == 3 ? offload_shard(in, host) : offload_slice(in, host);
  if (in.strategy.offload_parameters == OffloadDevice::cpu) pin_parameters(in, host);
  if (in.strategy.offload_parameters == OffloadDevice::nvme) swap_parameters(in, host);
}

}  // namespace zplan
