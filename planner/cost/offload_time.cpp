#include "planner/cost/offload_time.h"

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "planner/cost/schedule.h"
#include "planner/question/framework.h"
#include "planner/sharding/shard.h"

namespace zplan {

namespace {

/// Share of the backward in a micro-step's compute: twice the forward's operations.
constexpr double kBackwardShare = 2.0 / 3.0;

Seconds beyond(Seconds time, Seconds hidden_by) { return std::max(Seconds{}, time - hidden_by); }

Bytes weights_updated(const Training& training, const Shard& shard) {
  return shard.optimizer_elements * weight_size(training);
}

/// Returns the bytes that the optimizer updates: fp32 copies, or the parameters themselves.
Bytes masters(const Training& training, const Shard& shard) {
  if (shard.master_weights > Bytes{}) return shard.master_weights;
  return shard.optimizer_elements * (spec(training.framework).casts_model ? weight_size(training)
                                     : training.method == Method::full    ? parameter_size(training)
                                                                          : adapter_size(training));
}

/// In the masters' type.
Bytes gradients(const Training& training, const Shard& shard) { return masters(training, shard); }

/// PyTorch's AdamW on the host, an operator after the other, with temporaries: six times what one pass over
/// weights, moments and gradient takes, in sizes of the weights. Source: DeepSpeed 0.19.8
/// ops/adam/cpu_adam.py: DeepSpeedCPUAdam is 5 to 7 times as fast as torch.optim.AdamW.
constexpr double kOperatorsPasses = 6 * 7;

/// One pass: gradient, and weights and moments read and written. Source: DeepSpeed 0.19.8
/// csrc/adam/cpu_adam_impl.cpp.
Bytes optimizer_pass(const Training& training, const Shard& shard) {
  if (!spec(training.framework).fuses_host_optimizer)
    return Bytes(
        static_cast<std::int64_t>(kOperatorsPasses * static_cast<double>(masters(training, shard).value)));
  return gradients(training, shard) + (masters(training, shard) + shard.moments) * 2;
}

/// Read as masters, written in 16 bits, where the two differ.
Bytes cast_back(const Training& training, const Shard& shard) {
  const bool apart = shard.master_weights > Bytes{};
  return apart ? shard.master_weights + weights_updated(training, shard) : Bytes{};
}

/// Returns one rank's part of the rate of a node's drives.
BytesPerSecond disk_rate(const Cluster& cluster) {
  return cluster.host.disk * (1.0 / static_cast<double>(cluster.gpus_per_node));
}

/// Over a GPU's own slot, or its part of a switch's link to the host.
BytesPerSecond copy_rate(const Cluster& cluster) {
  return cluster.gpu.pcie_effective * (1.0 / static_cast<double>(cluster.host.gpus_on_uplink));
}

/// States and gradients are written and read once. Without pipeline_read and pipeline_write, which are off
/// unless a config says otherwise, nothing runs meanwhile. Source: DeepSpeed 0.19.8
/// swap_tensor/partitioned_optimizer_swapper.py.
Seconds disk_time(const Training& training, const Strategy& strategy, const Cluster& cluster,
                  const Shard& shard) {
  if (strategy.offload_optimizer != OffloadDevice::nvme) return {};
  return ((masters(training, shard) + shard.moments + gradients(training, shard)) * 2) / disk_rate(cluster);
}

/// The host's optimizer, and NVMe's part of it: nothing runs on the device meanwhile.
Seconds host_optimizer_time(const Training& training, const Strategy& strategy, const Cluster& cluster,
                            const Shard& shard) {
  if (strategy.offload_optimizer == OffloadDevice::none) return {};
  return host_update_traffic(training, shard) / update_rate(cluster.host, cluster.gpus_per_node) +
         disk_time(training, strategy, cluster, shard);
}

/// Weights and gradients of ZeRO-3 on streams of their own, behind compute.
Seconds streamed(const Strategy& strategy, const Cluster& cluster, const Schedule& schedule,
                 Seconds micro_steps) {
  Seconds to_device = schedule.host_to_device / copy_rate(cluster);
  if (strategy.offload_parameters == OffloadDevice::nvme)
    to_device = std::max(to_device, schedule.host_to_device / disk_rate(cluster));
  return beyond(std::max(to_device, schedule.device_to_host / copy_rate(cluster)), micro_steps);
}

/// Gradients go out, and sums of earlier micro-steps come back first, on the stream that reduces them: the
/// compute stream's own without overlap_comm.
Seconds gradient_copies(const Training& training, const Strategy& strategy, const Cluster& cluster,
                        const Shard& shard, const Schedule& schedule, Seconds micro_steps) {
  const Bytes sums = schedule.host_to_device - weights_updated(training, shard);
  const Seconds copies = (schedule.device_to_host + sums) / copy_rate(cluster);
  return strategy.overlaps_communication() ? beyond(copies, micro_steps * kBackwardShare) : copies;
}

/// Updated weights behind the optimizer: from a pinned buffer, at stage 3 from a pageable one, which one
/// thread copies into pinned memory first. Source: DeepSpeed 0.19.8 stage_1_and_2.py
/// param_buffer_of_bit16_for_cpu_offload_groups, stage3.py _reassign_or_swap_out_partitioned_parameters.
Seconds weight_copies(const Training& training, const Strategy& strategy, const Cluster& cluster,
                      const Shard& shard) {
  const BytesPerSecond rate = copy_rate(cluster);
  return weights_updated(training, shard) /
         (strategy.zero_stage == 3 ? std::min(rate, staging_rate()) : rate);
}

/// Gradients of a further micro-step come to pageable memory, for which the host waits, and are added there.
/// Source: torch 2.11 _fsdp_collectives.py foreach_reduce.
Seconds sums_on_host(const Training& training, const Strategy& strategy, const Cluster& cluster,
                     const Shard& shard) {
  if (!spec(training.framework).adds_on_host || !training.syncs_each_micro_step) return {};
  const Bytes each = gradients(training, shard);
  const auto times = static_cast<double>(strategy.gradient_accumulation_steps - 1);
  return (each / std::min(copy_rate(cluster), staging_rate()) +
          (each * 3) / update_rate(cluster.host, cluster.gpus_per_node)) *
         times;
}

}  // namespace

Bytes host_update_traffic(const Training& training, const Shard& shard) {
  return gradients(training, shard) * 2 + optimizer_pass(training, shard) + cast_back(training, shard);
}

OffloadTime offload_time(const Training& training, const Strategy& strategy, const Cluster& cluster,
                         const Shard& shard, const Schedule& schedule, Seconds micro_steps) {
  const Seconds optimizer = host_optimizer_time(training, strategy, cluster, shard);
  if (strategy.offload_parameters != OffloadDevice::none)
    return {streamed(strategy, cluster, schedule, micro_steps),
            sums_on_host(training, strategy, cluster, shard), optimizer};
  if (strategy.offload_optimizer == OffloadDevice::none) return {};
  return {gradient_copies(training, strategy, cluster, shard, schedule, micro_steps),
          weight_copies(training, strategy, cluster, shard), optimizer};
}

}  // namespace zplan
