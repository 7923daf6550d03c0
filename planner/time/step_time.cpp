#include "planner/time/step_time.h"

#include <algorithm>
#include <optional>

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
  Seconds data, tensor;
};
CommunicationTime communication_time(const Schedule& schedule, const Cluster& cluster) {
  CommunicationTime time;
  for (const Collective& call : schedule.collectives) {
    // Tensor-parallel groups lie within a node; data-parallel groups span all nodes.
    const bool inside = call.group == Group::tensor || !cluster.between;
    (call.group == Group::tensor ? time.tensor : time.data) +=
        collective_time(call, inside ? cluster.inside : *cluster.between);
  }
  return time;
}

/// Stage 3 and overlap_comm send on a stream of their own: only what outlasts the backward (or, at stage 3,
/// the whole micro-step) shows. Everything else waits.
Seconds exposed(const CommunicationTime& time, Seconds compute, const Strategy& strategy) {
  if (!strategy.overlaps_communication()) return time.data + time.tensor;
  const double hidden_by = strategy.zero_stage == 3 ? 1.0 : 2.0 / 3.0;
  return time.tensor + std::max(Seconds{}, time.data - compute * hidden_by);
}

/// Transfers that the backward hides end where it does; the host's Adam and the return of the weights never
/// hide.
Seconds offload_time(const Strategy& strategy, const Cluster& cluster, const Shard& shard,
                     const Schedule& schedule, Seconds compute) {
  Seconds time{};
  const auto ranks = static_cast<double>(cluster.gpus_per_node);
  if (strategy.offload_optimizer != OffloadDevice::none) {
    time += Seconds(static_cast<double>(shard.optimizer_elements.value) * ranks / kCpuAdamElementsPerSecond);
    if (strategy.offload_optimizer == OffloadDevice::nvme)
      time += ((shard.master_weights + shard.moments) * 2) / BytesPerSecond(kNvme.value / ranks);
  }
  Seconds to_device = schedule.host_to_device / cluster.gpu.pcie_effective;
  if (strategy.offload_parameters == OffloadDevice::nvme)
    to_device = std::max(to_device, schedule.host_to_device / BytesPerSecond(kNvme.value / ranks));
  const Seconds from_device = schedule.device_to_host / cluster.gpu.pcie_effective;
  const bool hides = strategy.offload_parameters != OffloadDevice::none;
  time += hides ? std::max(Seconds{}, to_device - compute) : to_device;
  return time + std::max(Seconds{}, from_device - compute * (2.0 / 3.0));
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
  const CommunicationTime communication = communication_time(schedule, cluster);
  time.communication = communication.data + communication.tensor;
  time.exposed_communication = exposed(communication, time.compute, strategy);
  time.offload = offload_time(strategy, cluster, shard, schedule, time.compute);
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
