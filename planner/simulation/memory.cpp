#include "planner/simulation/memory.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "planner/sharding/optimizer_state.h"
#include "planner/simulation/allowances.h"
#include "planner/simulation/cards.h"

namespace zplan {

namespace {

/// torch's pinned allocator hands out powers of two: that much is gone from the host, whatever was asked for.
Bytes pinned_block(Bytes size) {
  if (size.value <= 0) return {};
  return Bytes(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size.value))));
}

struct HostTally {
  HostMemory sum;
  std::vector<Bytes> pinned_blocks;  ///< as torch's pinned allocator hands them out
  void pinned(Bytes size) { pinned_blocks.push_back(pinned_block(size)), exact_pinned(pinned_blocks.back()); }
  /// DeepSpeed's own AIO buffers are not rounded.
  void exact_pinned(Bytes size) { sum.total += size, sum.pinned += size; }
  void pageable(Bytes size) { sum.total += size; }
  void nvme(Bytes size) { sum.nvme += size; }
};

/// ZeRO 1 and 2: master, fp32 gradient, 16-bit staging and the largest parameter pinned, Adam pageable; at
/// stage 2 accumulators of whole parameters where gradients accumulate.
void offload_slice(const StepInputs& in, HostTally& host) {
  const Elements slice = in.shard.optimizer_elements;
  const Bytes weight = weight_size(in.training);
  host.pinned(in.shard.master_weights);
  host.pageable(in.shard.moments);
  host.pinned(slice * Bytes(4));
  host.pinned(slice * weight);
  host.pinned(in.rank.largest_trainable * weight);
  if (in.strategy.zero_stage == 2 && in.strategy.gradient_accumulation_steps > 1)
    host.pinned(in.slice.touching * weight);
}

/// ZeRO 3: the flat gradient partition pinned, an fp32 gradient pinned per sub-group, master and Adam
/// pageable.
void offload_shard(const StepInputs& in, HostTally& host) {
  host.pinned(in.shard.gradients);
  if (in.strategy.offload_optimizer == OffloadDevice::cpu) {
    for (const Elements group : sub_groups(in.rank, in.strategy)) host.pinned(group * Bytes(4));
    host.pageable(in.shard.master_weights + in.shard.moments);
    return;
  }
  // On NVMe the states pass through buffers: four (buffer_count) of the largest sub-group.
  constexpr std::int64_t kBuffers = 4;
  host.exact_pinned(largest_sub_group(in.rank, in.strategy) * Bytes(4 * kBuffers));
  host.nvme(in.shard.master_weights + in.shard.moments + in.shard.optimizer_elements * Bytes(4));
}

/// Parameters on the host: the flat buffer, and beside it the blocks in which each tensor's part was pinned
/// before it moved there; the pinned allocator keeps them. A tied head is pinned too before it becomes the
/// embedding.
void pin_parameters(const StepInputs& in, HostTally& host) {
  const Bytes weight = weight_size(in.training);
  host.pinned(in.shard.parameters);
  for (const RankTensor& tensor : in.rank.tensors)
    for (int times = in.model.shape.tied_embeddings && tensor.role == TensorRole::token_embedding ? 2 : 1;
         times > 0; --times)
      host.pinned(share(tensor.elements, in.strategy.data_parallel) * weight);
}

/// On NVMe: five buffers (buffer_count) of buffer_size elements; up to 1e9 elements stay in memory
/// (max_in_cpu).
void swap_parameters(const StepInputs& in, HostTally& host) {
  const Bytes weight = weight_size(in.training);
  host.exact_pinned(swap_buffer_size(in.rank, in.strategy) * weight * 5);
  host.pageable(std::min(Elements(1'000'000'000) * weight, in.shard.parameters));
  host.nvme(in.shard.parameters);
}

/// CPUOffloadPolicy: shards and reduced gradients are pinned parameter by parameter; torch's optimizer makes
/// its moments beside them. Source: torch 2.11 distributed/fsdp/_fully_shard/_fsdp_param.py,
/// _fsdp_collectives.py.
void offload_fsdp(const StepInputs& in, HostTally& host) {
  for (const RankTensor& tensor : in.rank.tensors) {
    const Bytes stored(tensor.stored.value / std::max<std::int64_t>(tensor.elements.value, 1));
    const Bytes part = fsdp_shard(tensor, in.strategy.sharding_ranks()) * stored;
    host.pinned(part);
    if (tensor.trainable) host.pinned(part);
  }
  host.pageable(in.shard.moments);
}

HostTally host_tally(const StepInputs& in) {
  HostTally host;
  if (in.training.framework == Framework::fsdp) {
    if (in.strategy.offload_parameters != OffloadDevice::none) offload_fsdp(in, host);
    return host;
  }
  if (in.strategy.offload_optimizer != OffloadDevice::none)
    in.strategy.zero_stage == 3 ? offload_shard(in, host) : offload_slice(in, host);
  if (in.strategy.offload_parameters == OffloadDevice::cpu) pin_parameters(in, host);
  if (in.strategy.offload_parameters == OffloadDevice::nvme) swap_parameters(in, host);
  return host;
}

std::vector<Bytes> saved_by_layer(const CondensedTape& tape) {
  std::vector<Bytes> of_class, of_layer;
  for (const CondensedTape::Layer& each : tape.classes) {
    Bytes sum{};
    for (const CondensedEvent& event : each.forward)
      if (event.delta >= 0) sum += tape.deltas[static_cast<std::size_t>(event.delta)].net.total();
    of_class.push_back(sum);
  }
  for (const std::size_t each : tape.layers) of_layer.push_back(of_class[each]);
  return of_layer;
}

Bytes nccl_buffers(const Strategy& s, std::string_view compute_capability, std::int64_t gpus_per_node) {
  Bytes sum{};
  for (const std::int64_t ranks : communicators(s, gpus_per_node))
    sum += nccl_communicator(ranks, compute_capability);
  return sum;
}

/// Quantised gradients go around the node and between nodes by all_to_alls, in communicators of their own.
Bytes all_to_all_connections(const Strategy& s, std::string_view compute_capability,
                             std::int64_t gpus_per_node) {
  if (!quantizes_gradients(s, gpus_per_node)) return {};
  const std::int64_t nodes = s.data_parallel * s.tensor_parallel / gpus_per_node;
  return nccl_connections(gpus_per_node - 1, compute_capability) + nccl_network_connections(nodes - 1);
}

Bytes outside_allocator(const RunInputs& inputs) {
  return outside_allocator(inputs.step.strategy, inputs.compute_capability, inputs.gpus_per_node);
}

/// What both kinds of plan have in common.
MemoryPlan plan_of(const RunResult& run, const RunInputs& inputs, const Cluster& cluster) {
  const StepInputs& in = inputs.step;
  MemoryPlan plan;
  plan.peak = run.peak;
  plan.peak.holds[Term::allocator_rounding] = std::max(run.peak_allocated - run.peak.bytes(), Bytes{});
  plan.peak.holds[Term::cuda_context] = cuda_context(inputs.compute_capability);
  plan.peak.holds[Term::nccl_buffers] =
      nccl_buffers(in.strategy, inputs.compute_capability, inputs.gpus_per_node);
  plan.peak.holds[Term::nccl_connections] =
      all_to_all_connections(in.strategy, inputs.compute_capability, inputs.gpus_per_node);
  plan.phases = run.phases;
  const bool flattens_on_host = run.flattening && cluster.usable_memory < run.flattening->card;
  plan.initialisation = flattens_on_host ? run.least_initialisation : run.initialisation;
  plan.peak_allocated = run.peak_allocated;
  plan.peak_reserved = run.peak_reserved;
  const Bytes outside = outside_allocator(inputs);
  plan.required_low = plan.required =
      std::max(run.peak_allocated, run.least_initialisation.allocated) + outside;
  plan.required_high = run.peak_reserved + outside;
  plan.steady = steady_state(in.rank, in.training, in.strategy);
  plan.host = host_memory(in, cluster.gpus_per_node);
  if (run.flattening) {
    plan.failing_start = run.flattening->failing(outside);
    // A smaller card runs it, and this one does not: what is asked for is the next larger that does.
    if (plan.failing_start.contains(cluster.usable_memory))
      plan.required_low = plan.required = std::max(plan.required_low, plan.failing_start.until);
    // It is over before what is offloaded is made.
    if (flattens_on_host)
      plan.host.total = std::max(plan.host.total, run.flattening->on_host * cluster.gpus_per_node);
  }
  plan.timeline = run.timeline;
  plan.saved_by_layer = saved_by_layer(inputs.recording.condensed);
  return plan;
}

}  // namespace

std::vector<std::int64_t> communicators(const Strategy& s, std::int64_t gpus_per_node) {
  if (s.replicas > 1) return {s.sharding_ranks(), s.replicas};
  const std::int64_t world = s.data_parallel * s.tensor_parallel;
  std::vector<std::int64_t> groups{world};
  if (s.data_parallel > 1) groups.push_back(s.tensor_parallel);
  if (s.zero_stage < 3) return groups;
  groups.push_back(s.zero.secondary_partition);
  if (quantizes_gradients(s, gpus_per_node)) {
    groups.push_back(gpus_per_node);
    groups.push_back(world / gpus_per_node);
  }
  return groups;
}

HostMemory host_memory(const StepInputs& in, std::int64_t ranks_per_node) {
  const HostMemory rank = host_tally(in).sum;
  return {rank.total * ranks_per_node, rank.pinned * ranks_per_node, rank.nvme * ranks_per_node};
}

std::vector<Bytes> pinned_blocks(const StepInputs& in) { return host_tally(in).pinned_blocks; }

Bytes outside_allocator(const Strategy& strategy, std::string_view compute_capability,
                        std::int64_t gpus_per_node) {
  return cuda_context(compute_capability) + nccl_buffers(strategy, compute_capability, gpus_per_node) +
         all_to_all_connections(strategy, compute_capability, gpus_per_node);
}

MemoryPlan plan_live_memory(const RunInputs& inputs, const RunResult& live, const Cluster& cluster) {
  return plan_of(live, inputs, cluster);
}

MemoryPlan plan_memory(const RunInputs& inputs, const RunResult& run, const Cluster& cluster, Cards& cards) {
  MemoryPlan plan = plan_of(run, inputs, cluster);
  if (run.flattening && cluster.usable_memory < run.flattening->card) {
    plan.peak_reserved = cards.on_host().peak_reserved;
    plan.required_high = plan.peak_reserved + outside_allocator(inputs);
  }
  plan.required = std::max(cards.smallest(), plan.required_low);
  plan.required_high = std::max(plan.required_high, plan.required);
  return plan;
}

}  // namespace zplan
