#include "planner/cost/schedule.h"

#include <algorithm>

#include "hardware_profiles/link_speed.h"
#include "planner/question/framework.h"
#include "planner/sharding/shard.h"

namespace zplan {

namespace {

void add(std::vector<Collective>& kinds, const Call& call) {
  auto at =
      std::find_if(kinds.begin(), kinds.end(), [&](const Collective& one) { return is_of_kind(call, one); });
  if (at == kinds.end()) {
    Collective kind;
    kind.operation = call.operation;
    kind.group = call.group;
    kind.group_size = call.group_size;
    kind.phase = call.phase;
    kind.dtype = call.dtype;
    kind.purpose = call.purpose;
    at = kinds.insert(at, kind);
  }
  at->count += call.times;
  at->elements += call.elements * call.times;
  at->bytes += call.elements * call.element * call.times;
}

/// Adds the bytes that cross to the host and back, per GPU. Gradients are cast to fp32 on the device and
/// copied once a step; with accumulation the sums of earlier micro-steps lie on the host in 16 bits, come
/// back and go out again. Source: DeepSpeed 0.19.8 stage_1_and_2.py
/// async_inplace_copy_grad_to_fp32_buffer_from_gpu, async_accumulate_grad_in_cpu_via_gpu; stage3.py
/// partition_grads.
void add_offload(Schedule& schedule, const Training& training, const Strategy& s, const RankModel& rank,
                 const Shard& shard) {
  const Bytes weight = weight_size(training);
  const std::int64_t micro_steps = s.gradient_accumulation_steps;
  if (s.offload_optimizer != OffloadDevice::none) {
    const Bytes sums = spec(training.framework).sums_on_host(rank, training, s, shard) * weight;
    schedule.device_to_host += shard.optimizer_elements * Bytes(4) + sums * micro_steps;
    schedule.host_to_device += sums * (micro_steps - 1);
    if (s.offload_parameters == OffloadDevice::none)
      schedule.host_to_device += shard.optimizer_elements * weight;
  }
  if (s.offload_parameters != OffloadDevice::none) {
    const Bytes kept =
        std::min(shard.parameters, share(s.zero.max_reuse_distance, s.layout.gradient_ranks()) * weight);
    schedule.host_to_device += (shard.parameters * 2 - kept) * micro_steps;
  }
}

}  // namespace

bool is_of_kind(const Call& call, const Collective& kind) {
  return kind.operation == call.operation && kind.group == call.group && kind.group_size == call.group_size &&
         kind.phase == call.phase && kind.dtype == call.dtype && kind.purpose == call.purpose;
}

namespace {
template <class Value>
Value total(const std::vector<Collective>& collectives, Value Collective::*member) {
  Value sum{};
  for (const Collective& each : collectives) sum += each.*member;
  return sum;
}
}  // namespace

Bytes Schedule::bytes() const { return total(collectives, &Collective::bytes); }
Bytes Schedule::wire_bytes_per_gpu() const { return total(collectives, &Collective::wire_bytes_per_gpu); }
Bytes Schedule::inside_bytes_per_gpu() const { return total(collectives, &Collective::inside_bytes_per_gpu); }
Bytes Schedule::outside_bytes_per_gpu() const {
  return total(collectives, &Collective::outside_bytes_per_gpu);
}
std::int64_t Schedule::calls() const { return total(collectives, &Collective::count); }

Schedule schedule(const std::vector<Call>& calls, const Training& training, const Strategy& strategy,
                  const RankModel& rank, const Shard& shard) {
  Schedule result;
  for (const Call& call : calls) add(result.collectives, call);
  for (Collective& each : result.collectives)
    each.wire_bytes_per_gpu = ring_wire_bytes(each.operation, each.bytes, each.group_size);
  add_offload(result, training, strategy, rank, shard);
  return result;
}

}  // namespace zplan
