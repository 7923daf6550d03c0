#include "planner/plan/plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/cost/price.h"
#include "planner/cost/step_calls.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/plan/plan_context.h"
#include "planner/plan/rank_run.h"
#include "planner/sharding/expert_model.h"
#include "planner/simulation/cards.h"
#include "planner/simulation/memory.h"

namespace zplan {

namespace {
/// Of one memory for GPU and host, what the host takes beside each GPU.
Bytes host_share(const Cluster& cluster, const MemoryPlan& memory) {
  if (!cluster.gpu.unified_memory) return {};
  return Bytes((memory.host.total.value + cluster.gpus_per_node - 1) / cluster.gpus_per_node);
}

/// What is left of it for the GPU is judged alone; what is needed is told with the host's part.
void add_host_share(MemoryPlan& memory, Bytes share) {
  memory.required += share, memory.required_low += share, memory.required_high += share;
}
}  // namespace

const std::shared_ptr<const Model>& PlanContext::shared_model(const Strategy& strategy) {
  if (!strategy.experts.enabled) return model_;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Model>& model = models_[{strategy.layout.of_model(), true}];
  if (!model) model = std::make_shared<Model>(with_local_experts(*model_, strategy));
  return model;
}

const std::shared_ptr<const RankModel>& PlanContext::shared_rank(const Strategy& strategy) {
  const std::shared_ptr<const Model>& model = shared_model(strategy);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const RankModel>& rank = ranks_[{strategy.layout.of_model(), strategy.experts.enabled}];
  if (!rank) rank = std::make_shared<RankModel>(rank_model(*model, training_, strategy.layout.tensor));
  return rank;
}

const std::shared_ptr<const Recording>& PlanContext::shared_recording(const Strategy& strategy) {
  const TapeKey key{strategy.layout.of_model(),
                    strategy.micro_batch_size,
                    strategy.zero_stage == 3,
                    strategy.checkpointing,
                    strategy.long_context,
                    strategy.experts,
                    follows_micro_step(training_, strategy)};
  Recorded& slot = [&]() -> Recorded& {
    const std::lock_guard lock(mutex_);
    return recordings_[key];
  }();
  std::call_once(slot.once, [&] {
    slot.recording =
        std::make_shared<Recording>(record(*shared_model(strategy), training_, strategy,
                                           {.compute_capability = cluster_.gpu.compute_capability}));
  });
  return slot.recording;
}

RankRun PlanContext::run(const Strategy& strategy) {
  return {{shared_model(strategy), shared_rank(strategy), shared_recording(strategy)},
          training_,
          strategy,
          RankRun::target_of(cluster_)};
}

namespace {

/// What PyTorch keeps and cannot use depends on the GPU, so that some GPUs run out of memory between a
/// smaller and a larger one that do not. So the GPU itself has to complete the run, and some GPU within
/// `limit`, which is what the headroom leaves of its memory.
bool completes_itself(const Cluster& cluster, const MemoryPlan& memory, Cards& cards) {
  return !memory.failing_start.contains(cluster.usable_memory) && cards.completes_on(cluster.usable_memory);
}

bool fits_by_allocator(RunInputs run, const Cluster& cluster, Bytes limit) {
  run.notes_calls = false;
  run.watched = limit - run.outside;
  const RunResult played = simulate(run);
  Cards cards(run, played);
  const MemoryPlan memory = plan_live_memory(run, played, cluster);
  if (memory.required_low > limit || memory.failing_start.contains(cluster.usable_memory)) return false;
  // The smaller GPU first: the larger one does the same until the smaller one refuses.
  const bool within = cards.completes_within(limit);
  return cards.completes_on(cluster.usable_memory) && (within || cards.smallest_is_within(limit));
}

/// The same of a whole plan. `required`, which was bisected to half a percent and as if larger GPUs never
/// had less memory available than smaller ones, is made to say it too.
bool fits_by_allocator(const Cluster& cluster, Bytes limit, Cards& cards, MemoryPlan& memory) {
  if (memory.required_low > limit) return false;
  if (memory.required > limit && !cards.completes_within(limit)) return false;
  memory.required = std::min(memory.required, limit);
  if (completes_itself(cluster, memory, cards)) return true;
  memory.required = cards.smallest(cluster.usable_memory);
  memory.required_high = std::max(memory.required_high, memory.required);
  return false;
}

}  // namespace

namespace {

/// What the first rank of an expert-parallel group needs more where tokens are routed unevenly, twice the
/// mean of rows to it. Nothing where the question gives a routing of its own.
Bytes more_if_skewed(const Model& model, const Cluster& cluster, const Training& training,
                     const RankRun& even) {
  constexpr double kSkew = 2;
  if (even.strategy().layout.expert == 1 || training.routing_skew != 1) return {};
  Training skewed = training;
  skewed.routing_skew = kSkew;
  const RankRun uneven(model, skewed, even.strategy(), RankRun::target_of(cluster));
  return std::max(Bytes{}, uneven.live().peak_allocated - even.live().peak_allocated);
}

StepFigures figures_of(const MemoryPlan& memory, const RunResult& played, const RankRun& run) {
  const Composition& holds = memory.peak.holds;
  Bytes gathered = holds[Term::gathered_parameters] + holds[Term::gathered_experts];
  // Where the peak is in the optimizer's step nothing is gathered: in a forward a layer and what comes next
  // is.
  if (run.strategy().zero_stage == 3)
    gathered = std::max(gathered, std::max(run.rank().largest_tensor, largest_layer(run.model())) *
                                      weight_size(run.training()));
  return {.required = memory.required,
          .held = played.left.total(),
          .gathered = gathered,
          .outside = run.outside(),
          .offload = memory.host.total};
}

/// Handing weights over, generating and scoring are phases of a step as training is: what is needed is what
/// the worst of them needs.
void cover_rollout(const std::vector<MomentMemory>& moments, const Training& training, MemoryPlan& memory) {
  if (!generates(training)) return;
  for (const MomentMemory& each : moments) {
    const bool is_phase = each.moment == RunMoment::weight_sync || each.moment == RunMoment::generation ||
                          each.moment == RunMoment::scoring;
    if (!is_phase) continue;
    for (Bytes* needed : {&memory.required, &memory.required_low, &memory.required_high})
      *needed = std::max(*needed, each.device);
  }
}

}  // namespace

Plan PlanContext::plan(const Strategy& strategy, Depth depth) {
  return plan(worst_rank(run(strategy), depth != Depth::complete), depth, std::nullopt);
}

std::optional<Plan> PlanContext::outline_if_fits(const Strategy& strategy) {
  const WorstRank worst = worst_rank(run(strategy), true);
  // What the host takes of one memory for both is known with the plan alone.
  if (cluster_.gpu.unified_memory) {
    Plan plan = this->plan(worst, Depth::outline, std::nullopt);
    return plan.fits ? std::optional(std::move(plan)) : std::nullopt;
  }
  if (!fits_device(worst)) return std::nullopt;
  Plan plan = this->plan(worst, Depth::outline, true);
  return plan.fits ? std::optional(std::move(plan)) : std::nullopt;
}

/// The smallest GPU that is tried on has what is live; where that is not known, what is asked about is mostly
/// more than there is.
RunResult PlanContext::full(const WorstRank& worst) const {
  RunInputs inputs = worst.run.inputs();
  inputs.watched =
      worst.live ? worst.live->peak_allocated : available(cluster_, headroom_) - worst.run.outside();
  return simulate(inputs);
}

/// `has_room`: whether the allocator fits the run into what there is, where that is known.
Plan PlanContext::plan(const WorstRank& worst, Depth depth, std::optional<bool> has_room) {
  const bool complete = depth == Depth::complete;
  const RankRun& run = worst.run;
  const Strategy& strategy = run.strategy();
  const RunInputs inputs = run.inputs();
  Plan plan;
  plan.framework = training_.framework;
  plan.strategy = strategy;
  plan.shard = run.shard();
  plan.measured_activations = model_->shape.operators.measured;
  Bytes limit;
  RunResult played = complete ? full(worst) : worst.live ? *worst.live : run.live();
  if (complete) {
    Cards cards(inputs, played);
    plan.memory = plan_memory(inputs, played, cluster_, cards);
    limit = available(cluster_, headroom_) - host_share(cluster_, plan.memory);
    plan.fits_device = fits_by_allocator(cluster_, limit, cards, plan.memory);
    plan.memory.required_high += more_if_skewed(*model_, cluster_, training_, this->run(strategy));
  } else {
    played.flattening = flattening_of(inputs);
    plan.memory = plan_live_memory(inputs, played, cluster_);
    limit = available(cluster_, headroom_) - host_share(cluster_, plan.memory);
    plan.fits_device = plan.memory.required_low <= limit &&
                       (has_room ? *has_room : fits_by_allocator(inputs, cluster_, limit));
  }
  add_host_share(plan.memory, host_share(cluster_, plan.memory));
  plan.communication = run.schedule(played);
  CostModel cost_model = run.cost_model(cluster_);
  if (complete) price(plan.communication, played.calls, cost_model);
  plan.time = run.time(played, plan.communication, cost_model);
  plan.moments = run_moments(inputs, figures_of(plan.memory, played, run), cluster_.gpus_per_node);
  cover_rollout(plan.moments, training_, plan.memory);
  if (generates(training_) && training_.rollout.engine != RolloutEngine::trainer)
    plan.engine = engine_memory(*model_, training_, strategy, cluster_.usable_memory);
  for (const MomentMemory& each : plan.moments)
    if (each.moment != RunMoment::training) plan.fits_device = plan.fits_device && each.device <= limit;
  plan.fits_host = most_on_host(plan.moments) <= available_on_host(cluster_, headroom_);
  plan.fits = plan.fits_device && plan.fits_host;
  return plan;
}

StepTime PlanContext::time(const Strategy& strategy) {
  const RankRun run = this->run(strategy);
  const RunResult played = run.live();
  CostModel cost_model = run.cost_model(cluster_);
  return run.time(played, run.schedule(played), cost_model);
}

StepCalls PlanContext::calls(const Strategy& strategy) {
  const RankRun run = this->run(strategy);
  CostModel cost_model = run.cost_model(cluster_);
  return step_calls(run.live().program, cost_model, strategy.gradient_accumulation_steps);
}

Plan PlanContext::outline(const Strategy& strategy) { return plan(strategy, Depth::outline); }
Plan PlanContext::complete(const Strategy& strategy) { return plan(strategy, Depth::complete); }

std::optional<WorstRank> PlanContext::may_fit(const Strategy& strategy, Bytes limit) {
  std::optional<WorstRank> worst;
  for (RankRun& each : run(strategy).distinct_ranks()) {
    RunResult live = each.live_memory();
    if (live.peak_allocated + each.outside() > limit) return std::nullopt;
    if (!worst || live.peak_allocated > worst->live->peak_allocated)
      worst.emplace(WorstRank{std::move(each), std::move(live)});
  }
  const RunInputs inputs = worst->run.inputs();
  worst->live->flattening = flattening_of(inputs);
  if (plan_live_memory(inputs, *worst->live, cluster_).required_low > limit) return std::nullopt;
  return worst;
}

bool PlanContext::fits_device(const WorstRank& worst) const {
  return fits_by_allocator(worst.run.inputs(), cluster_, available(cluster_, headroom_));
}

Plan make_plan(const Model& model, const Cluster& cluster, const Training& training, const Strategy& strategy,
               Headroom headroom) {
  return PlanContext(model, cluster, training, headroom).complete(strategy);
}

}  // namespace zplan
