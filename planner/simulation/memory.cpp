#include "planner/simulation/memory.h"

#include <algorithm>
#include <cmath>

#include "hardware_profiles/cluster.h"
#include "planner/model_trace/recorded_tape.h"
#include "planner/question/framework.h"
#include "planner/simulation/allowances.h"
#include "planner/simulation/gpu_trials.h"

namespace zplan {

namespace {

/// Inputs of checkpointed layers. DeepSpeed's hooks leave the last one on the device, and all at ZeRO-3;
/// Unsloth has buffers for all, which its first step fills.
void tally_checkpoints(const StepInputs& in, HostTally& host) {
  const Strategy& s = in.strategy;
  const std::int64_t layers = in.model.shape.layers;
  const Bytes each = weight_size(in.training) * (s.micro_batch_size * sequences_per_sample(in.training) *
                                                 local_tokens(in.training, s) * in.model.shape.hidden_size);
  const CheckpointOffload to = checkpoint_offload(in.training, s);
  if (to == CheckpointOffload::host) host.pageable(each * layers);
  const bool buffers = to == CheckpointOffload::buffered && each > kLargestUnoffloaded;
  if (s.checkpointing == Checkpointing::full && (buffers || moves_saved(to)))
    for (std::int64_t i = 0; i < layers; ++i) host.pinned(each);
  if (to != CheckpointOffload::pinned || s.zero_stage == 3) return;
  for (std::int64_t i = 1; i < layers; ++i) host.pinned(each);
}

/// Tensors that hooks keep in pinned memory from forward to backward.
void tally_saved(const Recording& recording, HostTally& host) {
  const auto pin = [&](const TapePart& part) {
    for (const Bytes each : part.pinned) host.pinned(each);
  };
  for (std::size_t i = 0; i < recording.chunks(); ++i) {
    const Tape& tape = recording.chunk(i).tape;
    pin(tape.model);
    for (const std::size_t each : tape.layers) pin(tape.classes[each]);
  }
}

/// The copies of the output head that Unsloth makes of a model that trains whole, in its own type and in
/// fp32; what they serve is not known (tests/reference/unsloth).
void tally_head(const StepInputs& in, HostTally& host) {
  if (in.training.modules.name != kUnsloth.name || in.training.method != Method::full) return;
  const Elements head(in.model.shape.vocabulary_size * in.model.shape.hidden_size);
  for (const std::int64_t element : {2, 4}) host.pinned(head * Bytes(element));
}

HostTally host_tally(const StepInputs& in) {
  HostTally host;
  spec(in.training.framework).offload(in, host);
  tally_checkpoints(in, host);
  tally_head(in, host);
  if (in.recording != nullptr) tally_saved(*in.recording, host);
  return host;
}

std::vector<Bytes> saved_by_layer(const CondensedTape& tape) {
  std::vector<Bytes> of_class, of_layer;
  for (const CondensedTape::Layer& each : tape.classes) {
    Bytes sum{};
    for (const CondensedEvent& event : each.forward)
      if (event.delta >= 0) sum += tape.deltas[static_cast<std::size_t>(event.delta)].net_total;
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

/// Ranks that divide a sample's tokens: with Ulysses each sends to every other, in a ring to its neighbours.
Bytes token_connections(const Strategy& s, std::string_view compute_capability, std::int64_t gpus_per_node) {
  const std::int64_t ranks = s.layout.token_ranks();
  const std::int64_t peers = std::min<std::int64_t>(ranks - 1, s.layout.context > 1 ? 2 : ranks);
  const std::int64_t of_node = gpus_per_node > 0 ? std::min(ranks, gpus_per_node) : ranks;
  const std::int64_t inside = std::min(peers, of_node - 1);
  return nccl_connections(inside, compute_capability) + nccl_network_connections(peers - inside);
}

/// Quantised gradients go around the node and between nodes by all_to_alls, in communicators of their own.
Bytes all_to_all_connections(const Strategy& s, std::string_view compute_capability,
                             std::int64_t gpus_per_node) {
  if (s.layout.token_ranks() > 1) return token_connections(s, compute_capability, gpus_per_node);
  if (!quantizes_gradients(s, gpus_per_node)) return {};
  const std::int64_t nodes = s.layout.world() / gpus_per_node;
  return nccl_connections(gpus_per_node - 1, compute_capability) + nccl_network_connections(nodes - 1);
}

Bytes outside_allocator(const RunInputs& inputs) {
  return outside_allocator(inputs.step.strategy, inputs.compute_capability, inputs.gpus_per_node) +
         inputs.engine;
}

/// Returns what a live and a whole plan have in common.
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
  plan.peak.holds[Term::engine] = inputs.engine;
  plan.phases = run.phases;
  const bool flattens_on_host = run.flattening && cluster.usable_memory < run.flattening->gpu;
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
    // A smaller GPU runs it, and this one does not: the plan needs the next larger one that does.
    if (plan.failing_start.contains(cluster.usable_memory))
      plan.required_low = plan.required = std::max(plan.required_low, plan.failing_start.until);
    // It is over before what is offloaded is made.
    if (flattens_on_host)
      plan.host.total = std::max(plan.host.total, run.flattening->on_host * cluster.gpus_per_node);
  }
  plan.timeline = run.timeline;
  for (std::size_t i = 0; i < inputs.recording.chunks(); ++i) {
    const std::vector<Bytes> saved = saved_by_layer(inputs.recording.chunk(i).condensed);
    plan.saved_by_layer.insert(plan.saved_by_layer.end(), saved.begin(), saved.end());
  }
  return plan;
}

}  // namespace

std::vector<std::int64_t> communicators(const Strategy& s, std::int64_t gpus_per_node) {
  const bool is_hybrid = s.layout.replicate > 1;
  const std::int64_t world = s.layout.world();
  std::vector<std::int64_t> groups{world};
  if (is_hybrid) groups = {s.layout.shard, s.layout.replicate};
  if (!is_hybrid && s.layout.data_ranks() > 1) groups.push_back(s.layout.tensor);
  if (!is_hybrid && s.layout.token_ranks() > 1) groups.push_back(s.layout.token_ranks());
  if (s.experts.enabled) {
    groups.push_back(s.layout.expert);
    groups.push_back(process_group(s.layout, Group::expert_data).size);
  }
  if (is_hybrid || s.zero_stage < 3) return groups;
  groups.push_back(s.zero.secondary_partition);
  if (quantizes_gradients(s, gpus_per_node)) {
    groups.push_back(gpus_per_node);
    groups.push_back(world / gpus_per_node);
  }
  return groups;
}

namespace {

void add(HostMemory& sum, const HostMemory& one, std::int64_t times = 1) {
  sum.total += one.total * times, sum.pinned += one.pinned * times, sum.nvme += one.nvme * times;
}

/// Returns the host memory of each data-parallel rank.
std::vector<HostMemory> host_of_slices(const StepInputs& in) {
  std::vector<HostMemory> each;
  for (const Slice& slice : in.slices)
    each.push_back(
        host_tally({in.model, in.training, in.strategy, in.rank, in.shard, slice, in.slices, in.recording})
            .sum);
  return each;
}

}  // namespace

HostMemory host_memory(const StepInputs& in, std::int64_t ranks_per_node) {
  HostMemory most;
  if (in.slices.empty() || in.strategy.offload_optimizer == OffloadDevice::none) {
    add(most, host_tally(in).sum, ranks_per_node);
    return most;
  }
  // Pinned blocks are powers of two: of two ranks whose slices hardly differ one may keep twice as much.
  const std::vector<HostMemory> of_rank = host_of_slices(in);
  const ProcessGroup data = process_group(in.strategy.layout, Group::data);
  for (std::int64_t first = 0; first < in.strategy.layout.world(); first += ranks_per_node) {
    HostMemory node;
    for (std::int64_t rank = first; rank < first + ranks_per_node; ++rank)
      add(node, of_rank[static_cast<std::size_t>(data.place_of(rank))]);
    if (node.total > most.total) most = node;
  }
  return most;
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

MemoryPlan plan_memory(const RunInputs& inputs, const RunResult& run, const Cluster& cluster,
                       GpuTrials& gpus) {
  MemoryPlan plan = plan_of(run, inputs, cluster);
  if (run.flattening && cluster.usable_memory < run.flattening->gpu) {
    plan.peak_reserved = gpus.on_host().peak_reserved;
    plan.required_high = plan.peak_reserved + outside_allocator(inputs);
  }
  plan.required = std::max(gpus.smallest(), plan.required_low);
  plan.required_high = std::max(plan.required_high, plan.required);
  if (is_by_analogy(inputs.step.model, inputs.step.training, inputs.step.strategy))
    plan.required_high = std::max(plan.required_high, Bytes(plan.required.value / 10 * kAnalogyTenths));
  return plan;
}

}  // namespace zplan
