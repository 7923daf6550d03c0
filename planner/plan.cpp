#include "planner/plan.h"

namespace zplan {

namespace {
Bytes less(Bytes whole, Headroom headroom) {
  return whole - Bytes(static_cast<std::int64_t>(headroom.fraction * static_cast<double>(whole.value)));
}
}  // namespace

Bytes available(const Cluster& cluster, Headroom headroom) { return less(cluster.usable_memory, headroom); }

Bytes available_on_host(const Cluster& cluster, Headroom headroom) {
  return less(cluster.host_memory_per_node, headroom);
}

Plan make_plan(const Model& model, const Cluster& cluster, const Training& training, const Strategy& strategy,
               const RankModel& rank, Headroom headroom) {
  Plan plan;
  plan.strategy = strategy;
  plan.shard = make_shard(rank, training, strategy);
  const bool sliced = strategy.zero_stage == 1 || strategy.zero_stage == 2;
  const Slice slice = sliced ? worst_slice(rank, training, strategy) : Slice{};
  const Activations saved = activations(model, training, strategy);
  plan.measured_activations = saved.measured;
  plan.memory = plan_memory({model, training, strategy, rank, plan.shard, slice, saved}, cluster);
  plan.communication = schedule(model, training, strategy, rank, plan.shard);
  plan.time = step_time(model, training, strategy, cluster, plan.shard, plan.communication);
  plan.fits_device = plan.memory.required <= available(cluster, headroom);
  plan.fits_host = plan.memory.host.total <= available_on_host(cluster, headroom);
  plan.fits = plan.fits_device && plan.fits_host;
  return plan;
}

Plan make_plan(const Model& model, const Cluster& cluster, const Training& training, const Strategy& strategy,
               Headroom headroom) {
  return make_plan(model, cluster, training, strategy, rank_model(model, training, strategy.tensor_parallel),
                   headroom);
}

}  // namespace zplan
