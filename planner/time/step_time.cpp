#include "planner/time/step_time.h"

#include <algorithm>
#include <optional>

#include "hardware_profiles/link_speed.h"

namespace zplan {

namespace {

/// DeepSpeed's CPU Adam updates 3.9e9 parameters a second on one node.
/// Source: Ren et al. 2021 (ZeRO-Offload), table 4: 10e9 parameters in 2.57 s on a DGX-2.
constexpr double kCpuAdamElementsPerSecond = 3.9e9;

/// One NVMe drive per node: 3 GB/s read and write. Assumed: a PCIe 4 x4 data-centre drive.
constexpr BytesPerSecond kNvme{3e9};

/// Bytes that an optimizer step on the device moves per element: gradient 4, master weights 4 + 4, two
/// moments 8 + 8, weight 2. Source: the fused Adam kernel reads and writes each once.
constexpr Bytes kOptimizerTraffic{30};

/// Matrix-product parameters that one token passes.
double active_matrix_parameters(const Model& model) {
  double sum = 0;
  for_each_tensor(model.inventory, [&](const Tensor& tensor, int) {
    if (!tensor.linear) return;
    const auto size = static_cast<double>(tensor.elements().value);
    const bool routed = tensor.role == TensorRole::expert && model.shape.experts;
    sum += routed ? size * static_cast<double>(model.shape.experts->experts_per_token) /
                        static_cast<double>(model.shape.experts->experts)
                  : size;
  });
  if (model.shape.tied_embeddings)  // the head's product is there without a tensor of its own
    sum += static_cast<double>(model.shape.vocabulary_size) * static_cast<double>(model.shape.hidden_size);
  return sum;
}

Seconds collective_time(const Collective& call, const LinkSpeed& link) {
  const BytesPerSecond rate = call.operation == Operation::all_reduce ? link.all_reduce : link.all_gather;
  return call.wire_bytes_per_gpu / rate + link.latency * static_cast<double>(call.count);
}

struct CommunicationTime {
  Seconds tensor;             ///< tensor-parallel: products wait for it
  Seconds forward, backward;  ///< data-parallel
  Seconds step;               ///< data-parallel, behind the optimizer
  [[nodiscard]] Seconds all() const { return tensor + forward + backward + step; }
};

/// Bus bandwidth of a data-parallel group: inside the node, or one of t rings side by side over all nodes.
LinkSpeed data_link(const Cluster& cluster, std::int64_t tensor_parallel) {
  if (!cluster.between || !cluster.network) return cluster.inside;
  return speed_between(cluster.gpu, {cluster.inside, ""}, *cluster.network, cluster.nodes,
                       cluster.gpus_per_node, tensor_parallel)
      .speed;
}

CommunicationTime communication_time(const Schedule& schedule, const Cluster& cluster,
                                     std::int64_t tensor_parallel) {
  const LinkSpeed data = data_link(cluster, tensor_parallel);
  CommunicationTime time;
  for (const Collective& call : schedule.collectives) {
    // Tensor-parallel groups lie within a node.
    if (call.group == Group::tensor)
      time.tensor += collective_time(call, cluster.inside);
    else
      (call.phase == Phase::step      ? time.step
       : call.phase == Phase::forward ? time.forward
                                      : time.backward) += collective_time(call, data);
  }
  return time;
}

/// Of a micro-step's compute the backward has two thirds: twice the forward's operations.
constexpr double kBackwardShare = 2.0 / 3.0;

/// Compute that runs while data-parallel collectives do. Stage 3 gathers ahead and scatters behind in both
/// passes; with overlap_comm the backwards that reduce do, every one at stage 2 and the last at stage 1; else
/// nothing does.
struct Hiding {
  Seconds forward, backward;
};
Hiding hiding_compute(const Strategy& strategy, Seconds compute) {
  if (!strategy.overlaps_communication() || strategy.zero_stage == 0) return {};
  if (strategy.zero_stage == 3) return {compute * (1 - kBackwardShare), compute * kBackwardShare};
  const double last =
      strategy.zero_stage == 1 ? static_cast<double>(strategy.gradient_accumulation_steps) : 1.0;
  return {Seconds{}, compute * (kBackwardShare / last)};
}

Seconds beyond(Seconds time, Seconds hidden_by) { return std::max(Seconds{}, time - hidden_by); }

Seconds exposed(const CommunicationTime& time, Seconds compute, const Strategy& strategy) {
  const Hiding hiding = hiding_compute(strategy, compute);
  return time.tensor + time.step + beyond(time.forward, hiding.forward) +
         beyond(time.backward, hiding.backward);
}

/// The host's optimizer, and NVMe's part of it: nothing runs meanwhile.
Seconds host_optimizer_time(const Strategy& strategy, const Cluster& cluster, const Shard& shard) {
  if (strategy.offload_optimizer == OffloadDevice::none) return {};
  const auto ranks = static_cast<double>(cluster.gpus_per_node);
  Seconds time(static_cast<double>(shard.optimizer_elements.value) * ranks / kCpuAdamElementsPerSecond);
  if (strategy.offload_optimizer == OffloadDevice::nvme)
    time += ((shard.master_weights + shard.moments) * 2) / BytesPerSecond(kNvme.value / ranks);
  return time;
}

/// Transfers run while the micro-steps compute and communicate: only what outlasts both shows. Updated
/// weights that go back to the device behind the optimizer always show.
Seconds offload_time(const Strategy& strategy, const Cluster& cluster, const Shard& shard,
                     const Schedule& schedule, Seconds micro_steps) {
  const BytesPerSecond disk(kNvme.value / static_cast<double>(cluster.gpus_per_node));
  const bool parameters_away = strategy.offload_parameters != OffloadDevice::none;
  Seconds to_device = schedule.host_to_device / cluster.gpu.pcie_effective;
  if (strategy.offload_parameters == OffloadDevice::nvme)
    to_device = std::max(to_device, schedule.host_to_device / disk);
  const Seconds from_device = schedule.device_to_host / cluster.gpu.pcie_effective;
  const Seconds transfers = parameters_away ? beyond(std::max(to_device, from_device), micro_steps)
                                            : to_device + beyond(from_device, micro_steps * kBackwardShare);
  return transfers + host_optimizer_time(strategy, cluster, shard);
}

Bound largest_part(const StepTime& time) {
  const std::array<std::pair<Seconds, Bound>, 4> parts{{{time.compute, Bound::compute},
                                                        {time.exposed_communication, Bound::communication},
                                                        {time.offload, Bound::offload},
                                                        {time.optimizer, Bound::optimizer}}};
  return std::max_element(parts.begin(), parts.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

}  // namespace

MicroStepFlops micro_step_flops(const Model& model, const Training& training, const Strategy& strategy) {
  const ModelShape& shape = model.shape;
  const auto tokens = static_cast<double>(strategy.micro_batch_size * training.sequence_length);
  const double attention = 4.0 * static_cast<double>(shape.layers) *
                           static_cast<double>(shape.attention_heads * shape.head_size) *
                           static_cast<double>(training.sequence_length);
  const double forward = (2.0 * active_matrix_parameters(model) + attention) * tokens /
                         static_cast<double>(strategy.tensor_parallel);
  const double passes = training.method == Method::full ? 3 : 2;
  const double again = strategy.checkpointing == Checkpointing::full ? 1 : 0;
  return {Flops(forward * passes), Flops(forward * (passes + again))};
}

std::optional<FlopsPerSecond> matrix_peak(const Gpu& gpu, Precision precision) {
  switch (precision) {
    case Precision::bf16: return gpu.bf16;
    case Precision::fp16: return gpu.fp16;
    case Precision::fp32: return gpu.tf32 ? gpu.tf32 : gpu.fp32;
  }
  return std::nullopt;
}

StepTime step_time(const Model& model, const Training& training, const Strategy& strategy,
                   const Cluster& cluster, const Shard& shard, const Schedule& schedule) {
  const auto micro_steps = static_cast<double>(strategy.gradient_accumulation_steps);
  const MicroStepFlops flops = micro_step_flops(model, training, strategy);
  // A card without the type in hardware falls back on fp32 units.
  const FlopsPerSecond peak =
      matrix_peak(cluster.gpu, training.precision).value_or(cluster.gpu.fp32.value_or(FlopsPerSecond(1e12)));
  StepTime time;
  time.compute = flops.hardware / (peak * cluster.gpu.matrix_efficiency) * micro_steps;
  const CommunicationTime communication = communication_time(schedule, cluster, strategy.tensor_parallel);
  time.communication = communication.all();
  time.exposed_communication = exposed(communication, time.compute, strategy);
  time.offload = offload_time(strategy, cluster, shard, schedule, time.compute + time.exposed_communication);
  if (strategy.offload_optimizer == OffloadDevice::none)
    time.optimizer = (shard.optimizer_elements * kOptimizerTraffic) / cluster.gpu.memory_bandwidth;
  time.step = time.compute + time.exposed_communication + time.offload + time.optimizer;
  const auto tokens = static_cast<double>(strategy.global_batch_size() * training.sequence_length);
  time.tokens_per_second = tokens / time.step.value;
  time.tokens_per_second_per_gpu = time.tokens_per_second / static_cast<double>(cluster.gpus);
  time.mfu = flops.model.value * micro_steps / (time.step.value * peak.value);
  time.bound = largest_part(time);
  return time;
}

}  // namespace zplan
