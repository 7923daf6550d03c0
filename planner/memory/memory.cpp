#include "planner/memory/memory.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "planner/memory/allowances.h"

namespace zplan {

namespace {

/// torch's pinned allocator hands out powers of two: that much is gone from the host, whatever was asked for.
Bytes pinned_block(Bytes size) {
  if (size.value <= 0) return {};
  return Bytes(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size.value))));
}

struct HostTally {
  HostMemory sum;
  void pinned(Bytes size) { exact_pinned(pinned_block(size)); }
  /// DeepSpeed's own AIO buffers are not rounded.
  void exact_pinned(Bytes size) { sum.total += size, sum.pinned += size; }
  void pageable(Bytes size) { sum.total += size; }
  void nvme(Bytes size) { sum.nvme += size; }
};

/// ZeRO 1 and 2: master, Adam, fp32 gradient, 16-bit staging, the largest parameter, and accumulators of
/// whole parameters where gradients accumulate.
void offload_slice(const StepInputs& in, HostTally& host) {
  const Elements slice = in.shard.optimizer_elements;
  const Bytes weight = weight_size(in.training);
  host.pinned(in.shard.master_weights);
  host.pageable(in.shard.moments);
  host.pinned(slice * Bytes(4));
  host.pinned(slice * weight);
  host.pinned(in.rank.largest_trainable * weight);
  if (in.strategy.gradient_accumulation_steps > 1) host.pinned(in.slice.touching * weight);
}

/// ZeRO 3: master, Adam and fp32 gradient, plus the flat gradient partition that stays on the host.
void offload_shard(const StepInputs& in, HostTally& host) {
  host.pinned(in.shard.gradients);
  const Bytes gradient = in.shard.optimizer_elements * Bytes(4);
  if (in.strategy.offload_optimizer == OffloadDevice::cpu) {
    host.pinned(in.shard.master_weights);
    host.pinned(gradient);
    host.pageable(in.shard.moments);
    return;
  }
  // On NVMe the states pass through buffers: four (buffer_count) of the largest sub-group.
  constexpr std::int64_t kBuffers = 4;
  const Bytes buffer = largest_sub_group(in.rank, in.strategy) * Bytes(4);
  host.exact_pinned(buffer * kBuffers);
  host.nvme(in.shard.master_weights + in.shard.moments + gradient);
}

void offload_parameters(const StepInputs& in, HostTally& host) {
  if (in.strategy.offload_parameters == OffloadDevice::cpu) return host.pinned(in.shard.parameters);
  // Five buffers (buffer_count) of 1e8 elements (buffer_size), or of the largest partition where that is
  // larger: the emitted config raises buffer_size then. Up to 1e9 elements stay in memory (max_in_cpu).
  const Bytes weight = weight_size(in.training);
  const Elements largest = share(in.rank.largest_tensor, in.strategy.data_parallel);
  const Bytes buffers = std::max(Elements(100'000'000), largest) * weight * 5;
  host.exact_pinned(buffers);
  host.pageable(std::min(Elements(1'000'000'000) * weight, in.shard.parameters));
  host.nvme(in.shard.parameters);
}

Bytes scaled(Bytes size, double factor) {
  return Bytes(static_cast<std::int64_t>(std::ceil(static_cast<double>(size.value) * factor)));
}

}  // namespace

std::int64_t communicators(const Strategy& s) {
  const bool several = s.data_parallel * s.tensor_parallel > 1;
  return (several ? 1 : 0) + (s.tensor_parallel > 1 && s.data_parallel > 1 ? 1 : 0);
}

HostMemory host_memory(const StepInputs& in, std::int64_t ranks_per_node) {
  HostTally host;
  if (in.strategy.offload_optimizer != OffloadDevice::none)
    in.strategy.zero_stage == 3 ? offload_shard(in, host) : offload_slice(in, host);
  if (in.strategy.offload_parameters != OffloadDevice::none) offload_parameters(in, host);
  return {host.sum.total * ranks_per_node, host.sum.pinned * ranks_per_node, host.sum.nvme * ranks_per_node};
}

MemoryPlan plan_memory(const StepInputs& in, const Cluster& cluster) {
  const Timeline timeline = step_timeline(in, cluster.gpu.compute_capability);
  MemoryPlan plan;
  plan.peak = timeline.peak();
  plan.peak_allocated = timeline.peak().bytes();
  plan.peak.holds[Term::cuda_context] = cuda_context();
  plan.peak.holds[Term::nccl_buffers] = nccl_buffers(communicators(in.strategy));
  const Bytes outside = cuda_context() + nccl_buffers(communicators(in.strategy));
  const AllocatorSlack slack = allocator_slack();
  plan.peak_reserved = scaled(plan.peak_allocated, 1 + reserved_growth());
  plan.required_low = scaled(plan.peak_allocated, 1 + slack.low) + outside;
  plan.required = scaled(plan.peak_allocated, 1 + slack.expected) + outside;
  plan.required_high = scaled(plan.peak_allocated, 1 + slack.high) + outside;
  plan.steady = steady_state(in.rank, in.training, in.strategy);
  plan.host = host_memory(in, cluster.gpus_per_node);
  plan.timeline = timeline.moments();
  return plan;
}

}  // namespace zplan
