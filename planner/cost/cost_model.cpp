#include "planner/cost/cost_model.h"

#include <algorithm>

#include "planner/cost/host_time.h"

namespace zplan {

std::optional<FlopsPerSecond> matrix_peak(const Gpu& gpu, Precision precision) {
  switch (precision) {
    case Precision::bf16: return gpu.bf16;
    case Precision::fp16: return gpu.fp16;
    case Precision::fp32: return gpu.tf32 ? gpu.tf32 : gpu.fp32;
  }
  return std::nullopt;
}

FlopsPerSecond rate_of(const Gpu& gpu, Precision precision) {
  return matrix_peak(gpu, precision).value_or(gpu.fp32.value_or(FlopsPerSecond(1e12)));
}

namespace {

/// fp32 factors among 16-bit training (a router, an fp32 head) run on the units for fp32.
Precision precision_of(const Product& product, Precision training) {
  return product.element == Bytes(4) ? Precision::fp32 : training;
}

}  // namespace

Seconds product_time(const Product& product, const Gpu& gpu, Precision precision) {
  const FlopsPerSecond rate = rate_of(gpu, precision_of(product, precision)) * gpu.efficiency.products;
  const std::int64_t values =
      product.rows * product.inner + product.inner * product.columns + product.rows * product.columns;
  const Seconds moving = (product.element * (values * product.batch * product.times)) /
                         (gpu.memory_bandwidth * gpu.efficiency.memory);
  return std::max(product.flops() / rate, moving);
}

LoadTime load_time(const Load& load, const Gpu& gpu, const Training& training) {
  LoadTime time;
  for (const Product& each : load.products) time.products += product_time(each, gpu, training.precision);
  const FlopsPerSecond rate = rate_of(gpu, training.precision);
  time.attention = (load.attention_forward + load.attention_backward) / (rate * gpu.efficiency.attention) *
                   spec(training.modules).attention_cost;
  time.other = load.moved / (gpu.memory_bandwidth * gpu.efficiency.memory);
  time.host = host_time::of(load);
  return time;
}

CostModel::CostModel(const Tape& tape, const Cluster& cluster, const Training& training,
                     const Strategy& strategy)
    : cluster_(cluster),
      layout_(strategy.layout),
      memory_(cluster.gpu.memory_bandwidth * cluster.gpu.efficiency.memory) {
  loads_.reserve(tape.loads.size());
  for (const Load& each : tape.loads) loads_.push_back(load_time(each, cluster.gpu, training));
}

const CollectivePricer& CostModel::pricer(const Call& call) {
  for (const Priced& each : priced_)
    if (each.operation == call.operation && each.group == call.group && each.ranks == call.group_size &&
        each.stride == call.stride)
      return each.pricer;
  const std::int64_t stride = process_group(layout_, call.group).stride * call.stride;
  priced_.push_back(
      {call.operation, call.group, call.group_size, call.stride,
       CollectivePricer(cluster_, call.operation, place_group(cluster_, call.group_size, stride))});
  return priced_.back().pricer;
}

Seconds CostModel::call(const Call& call) { return pricer(call).time(call.elements * call.element); }

}  // namespace zplan
