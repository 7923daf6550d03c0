#include "planner/plan.h"

namespace zplan {

Bytes available(const Cluster& cluster, Headroom headroom) {
  return cluster.usable_memory - Bytes(static_cast<std::int64_t>(
                                     headroom.fraction * static_cast<double>(cluster.usable_memory.value)));
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
  plan.fits_host = plan.memory.host.total <= cluster.host_memory_per_node;
  plan.fits = plan.fits_device && plan.fits_host;
  return plan;
}

Plan make_plan(const Model& model, const Cluster& cluster, const Training& training, const Strategy& strategy,
               Headroom headroom) {
  return make_plan(model, cluster, training, strategy, rank_model(model, training, strategy.tensor_parallel),
                   headroom);
}

}  // namespace zplan
