#include "planner/plan/plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "planner/cost/price.h"
#include "planner/cost/queues.h"
#include "planner/cost/step_calls.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/plan/plan_context.h"
#include "planner/plan/rank_run.h"
#include "planner/sharding/model_part.h"
#include "planner/simulation/gpu_trials.h"
#include "planner/simulation/memory.h"

namespace zplan {

namespace {
/// Returns what the host takes beside each GPU, where both have one memory.
Bytes host_share(const Cluster& cluster, const MemoryPlan& memory) {
  if (!cluster.gpu.unified_memory) return {};
  return Bytes((memory.host.total.value + cluster.gpus_per_node - 1) / cluster.gpus_per_node);
}

/// Adds the host's part to what is needed, after the GPU's part was judged alone.
void add_host_share(MemoryPlan& memory, Bytes share) {
  memory.required += share, memory.required_low += share, memory.required_high += share;
}

constexpr Bytes kNoLimit(std::numeric_limits<std::int64_t>::max());
}  // namespace

TapeKey TapeKey::of(const Training& training, const Strategy& strategy, const RankClass& place) {
  return {place.part(),
          strategy.layout.of_model(),
          strategy.micro_batch_size,
          strategy.zero_stage == 3,
          strategy.checkpointing,
          strategy.long_context,
          strategy.experts,
          strategy.megatron,
          strategy.torchtitan,
          follows_micro_step(training, strategy)};
}

const PlanContext::Part& PlanContext::part(const Strategy& strategy, const RankClass& place) {
  const bool is_whole = !strategy.experts.enabled && !strategy.megatron && !strategy.torchtitan &&
                        strategy.layout.pipeline == 1;
  const std::lock_guard lock(mutex_);
  Part& part = parts_[TapeKey::of(training_, strategy, place).of_part()];
  if (part.rank) return part;
  part.model = is_whole ? model_ : std::make_shared<Model>(model_part(*model_, strategy, place));
  part.rank = std::make_shared<RankModel>(rank_model(*part.model, training_, strategy, place));
  return part;
}

const std::shared_ptr<const Recording>& PlanContext::shared_recording(const Strategy& strategy,
                                                                      const RankClass& place) {
  Recorded& slot = [&]() -> Recorded& {
    const std::lock_guard lock(mutex_);
    return recordings_[TapeKey::of(training_, strategy, place)];
  }();
  std::call_once(slot.once, [&] {
    slot.recording = std::make_shared<Recording>(
        record(*part(strategy, place).model, training_, strategy, place, cluster_.gpu.compute_capability));
  });
  return slot.recording;
}

RankRun PlanContext::run(const Strategy& strategy, const RankClass& place) {
  const Part& of = part(strategy, place);
  return {{of.model, of.rank, shared_recording(strategy, place)},
          training_,
          strategy,
          RankRun::target_of(cluster_),
          place};
}

std::vector<RankRun> PlanContext::runs(const Strategy& strategy) {
  std::vector<RankRun> all;
  for (const RankClass& each : rank_classes(strategy.layout)) all.push_back(run(strategy, each));
  return all;
}

std::vector<SimulatedRank> PlanContext::ranks(const Strategy& strategy) {
  std::vector<SimulatedRank> all;
  for (const RankRun& each : runs(strategy)) all.push_back(neediest_slice(each, false));
  return all;
}

std::optional<std::vector<SimulatedRank>> PlanContext::live_ranks(const Strategy& strategy, Bytes most) {
  std::vector<SimulatedRank> all;
  for (const RankRun& each : runs(strategy)) {
    SimulatedRank rank = neediest_slice(each, true);
    if (!rank.live) rank.live = rank.run.live();
    if (rank.live->peak_allocated + rank.run.outside() > most) return std::nullopt;
    all.push_back(std::move(rank));
  }
  return all;
}

namespace {

/// True if the run starts and completes on the cluster's own GPU.
bool completes_itself(const Cluster& cluster, const MemoryPlan& memory, GpuTrials& gpus) {
  return !memory.failing_start.contains(cluster.usable_memory) && gpus.completes_on(cluster.usable_memory);
}

/// True if the run fits by the allocator: it completes on the cluster's own GPU, and on some GPU within
/// `limit`, which the headroom leaves of that GPU's memory. Both are needed: the allocator's unusable cache
/// depends on the GPU's size, so some GPUs run out of memory between a smaller and a larger one that do not.
/// `reserved` becomes the most that the allocator takes of a GPU without limit.
bool fits_by_allocator(RunInputs run, const Cluster& cluster, Bytes limit, Bytes& reserved) {
  run.notes_calls = false;
  run.watched = limit - run.outside;
  const RunResult played = simulate(run);
  reserved = played.peak_reserved;
  GpuTrials gpus(run, played);
  const MemoryPlan memory = plan_live_memory(run, played, cluster);
  if (memory.required_low > limit || memory.failing_start.contains(cluster.usable_memory)) return false;
  // The smaller GPU first: the larger one does the same until the smaller one refuses.
  const bool within = gpus.completes_within(limit);
  return gpus.completes_on(cluster.usable_memory) && (within || gpus.smallest_is_within(limit));
}
bool fits_by_allocator(const RunInputs& run, const Cluster& cluster, Bytes limit) {
  Bytes reserved;
  return fits_by_allocator(run, cluster, limit, reserved);
}

/// Returns the same as the overload above, of a whole plan, and adjusts `required` to agree: it was bisected
/// to half a percent and as if no larger GPU ran out of memory where a smaller one does not.
bool fits_by_allocator(const Cluster& cluster, Bytes limit, GpuTrials& gpus, MemoryPlan& memory) {
  if (memory.required_low > limit) return false;
  if (memory.required > limit && !gpus.completes_within(limit)) return false;
  memory.required = std::min(memory.required, limit);
  if (completes_itself(cluster, memory, gpus)) return true;
  memory.required = gpus.smallest(cluster.usable_memory);
  memory.required_high = std::max(memory.required_high, memory.required);
  return false;
}

}  // namespace

namespace {

/// Returns how much more the first rank of an expert-parallel group needs where it gets twice the mean of
/// routed rows. Nothing where the question gives a routing of its own.
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
  // Nothing is gathered where the peak is in the optimizer's step; a forward gathers a layer and the next
  // one.
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
  if (!rolls_out(training)) return;
  for (const MomentMemory& each : moments) {
    const bool is_phase = each.moment == RunMoment::weight_sync || each.moment == RunMoment::generation ||
                          each.moment == RunMoment::scoring;
    if (!is_phase) continue;
    for (Bytes* needed : {&memory.required, &memory.required_low, &memory.required_high})
      *needed = std::max(*needed, each.device);
  }
}

}  // namespace

std::optional<Plan> PlanContext::outline_if_fits(const Strategy& strategy) {
  std::optional<std::vector<SimulatedRank>> all = live_ranks(strategy, available(cluster_, headroom_));
  if (!all) return std::nullopt;
  // The host's part of one memory for both is known with the plan alone.
  std::optional<bool> has_room;
  if (!cluster_.gpu.unified_memory) {
    if (!fits_device(*all)) return std::nullopt;
    has_room = true;
  }
  Plan made = plan(*std::move(all), Depth::outline, has_room);
  return made.fits ? std::optional(std::move(made)) : std::nullopt;
}

/// The smallest GPU to be tried has the live bytes. Where those are not known, most questions are about more
/// than there is.
RunResult PlanContext::full(const SimulatedRank& rank) const {
  RunInputs inputs = rank.run.inputs();
  inputs.watched =
      rank.live ? rank.live->peak_allocated : available(cluster_, headroom_) - rank.run.outside();
  return simulate(inputs);
}

/// Plans the memory of one rank and what it sends. `has_room`: whether the allocator fits the run into what
/// there is, where that is known; `played` becomes the run that the plan is made from.
RankPlan PlanContext::plan(SimulatedRank& rank, Depth depth, std::optional<bool> has_room,
                           RunResult& played) {
  const RankRun& run = rank.run;
  const RunInputs inputs = run.inputs();
  RankPlan plan;
  plan.place = run.place(), plan.shard = run.shard();
  const auto limit = [&] { return available(cluster_, headroom_) - host_share(cluster_, plan.memory); };
  if (depth == Depth::complete) {
    played = full(rank);
    GpuTrials gpus(inputs, played);
    plan.memory = plan_memory(inputs, played, cluster_, gpus);
    plan.fits_device = fits_by_allocator(cluster_, limit(), gpus, plan.memory);
    plan.memory.required_high += more_if_skewed(*model_, cluster_, training_, this->run(run.strategy()));
  } else {
    played = *std::exchange(rank.live, std::nullopt);
    played.flattening = flattening_of(inputs);
    plan.memory = plan_live_memory(inputs, played, cluster_);
    plan.fits_device = plan.memory.required_low <= limit() &&
                       (has_room ? *has_room : fits_by_allocator(inputs, cluster_, limit()));
  }
  add_host_share(plan.memory, host_share(cluster_, plan.memory));
  plan.communication = run.schedule(played);
  if (depth == Depth::complete) {
    CostModel cost_model = run.cost_model(cluster_);
    price(plan.communication, played.calls, cost_model);
  }
  return plan;
}

namespace {

/// Returns the time of a step of ranks that run `played` and send what their plans say; notes in the plans
/// when each rank is through.
StepTime time_together(const std::vector<RankRun>& runs, const std::vector<RunResult>& played,
                       const Cluster& cluster, const Model& whole, std::vector<RankPlan>& plans) {
  std::vector<Durations<double>> takes;
  std::vector<RankProgram> programs;
  takes.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CostModel cost_model = runs[i].cost_model(cluster);
    takes.push_back(durations(played[i].program, cost_model));
    programs.push_back({&played[i].program, &takes[i]});
  }
  std::vector<RunTime> times;
  if (runs.size() == 1)
    times.push_back(run_time(play(played[0].program, takes[0]),
                             repeats_of(runs[0].strategy().gradient_accumulation_steps)));
  else
    for (const PlayedStep& each : play(programs)) times.push_back(run_time(each, 1));
  for (std::size_t i = 0; i < runs.size(); ++i) plans[i].through = times[i].step;
  const auto last =
      static_cast<std::size_t>(std::ranges::max_element(times, {}, &RunTime::step) - times.begin());
  return runs[last].time(times[last], plans[last].communication, cluster, whole);
}

}  // namespace

Plan PlanContext::plan(std::vector<SimulatedRank> ranks, Depth depth, std::optional<bool> has_room) {
  const Strategy strategy = ranks.front().run.strategy();
  Plan plan;
  plan.framework = training_.framework;
  plan.strategy = strategy;
  plan.measured_activations = model_->shape.operators.measured;
  plan.ranks.clear();
  std::vector<RankRun> runs;
  std::vector<RunResult> played(ranks.size());
  runs.reserve(ranks.size());
  for (SimulatedRank& each : ranks) {
    plan.ranks.push_back(this->plan(each, depth, has_room, played[runs.size()]));
    runs.push_back(std::move(each.run));
  }
  plan.time = time_together(runs, played, cluster_, *model_, plan.ranks);
  plan.fits_device = std::ranges::all_of(plan.ranks, &RankPlan::fits_device);
  const auto most = static_cast<std::size_t>(&plan.neediest() - plan.ranks.data());
  const Bytes limit = available(cluster_, headroom_) - host_share(cluster_, plan.ranks[most].memory);
  plan.moments =
      run_moments(runs[most].inputs(), figures_of(plan.ranks[most].memory, played[most], runs[most]),
                  cluster_.gpus_per_node);
  cover_rollout(plan.moments, training_, plan.ranks[most].memory);
  if (rolls_out(training_) && training_.rollout.engine != RolloutEngine::trainer)
    plan.engine = engine_memory(*model_, training_, strategy, cluster_.usable_memory);
  for (const MomentMemory& each : plan.moments)
    if (each.moment != RunMoment::training) plan.fits_device = plan.fits_device && each.device <= limit;
  plan.fits_host = most_on_host(plan.moments) <= available_on_host(cluster_, headroom_);
  plan.fits = plan.fits_device && plan.fits_host;
  return plan;
}

StepTime PlanContext::time(const Strategy& strategy) {
  const std::vector<RankRun> all = runs(strategy);
  std::vector<RunResult> played;
  std::vector<RankPlan> plans;
  for (const RankRun& each : all) {
    played.push_back(each.live());
    plans.emplace_back().communication = each.schedule(played.back());
  }
  return time_together(all, played, cluster_, *model_, plans);
}

StepCalls PlanContext::calls(const Strategy& strategy) {
  const RankRun run = this->run(strategy);
  CostModel cost_model = run.cost_model(cluster_);
  return step_calls(run.live().program, cost_model, strategy.gradient_accumulation_steps);
}

Plan PlanContext::outline(const Strategy& strategy) {
  return plan(*live_ranks(strategy, kNoLimit), Depth::outline, std::nullopt);
}
std::optional<Plan> PlanContext::sketch(const Strategy& strategy, Bytes most) {
  std::optional<std::vector<SimulatedRank>> all = live_ranks(strategy, most);
  if (!all) return std::nullopt;
  Plan made = plan(*std::move(all), Depth::outline, true);
  return made.memory().required_low <= most ? std::optional(std::move(made)) : std::nullopt;
}
Plan PlanContext::complete(const Strategy& strategy) {
  return plan(ranks(strategy), Depth::complete, std::nullopt);
}

std::optional<std::vector<SimulatedRank>> PlanContext::may_fit(const Strategy& strategy, Bytes limit) {
  std::vector<SimulatedRank> all;
  for (const RankRun& run : runs(strategy)) {
    std::optional<SimulatedRank> neediest;
    for (RankRun& each : run.of_slices()) {
      RunResult live = each.live_memory();
      if (live.peak_allocated + each.outside() > limit) return std::nullopt;
      if (!neediest || live.peak_allocated > neediest->live->peak_allocated)
        neediest.emplace(SimulatedRank{std::move(each), std::move(live)});
    }
    const RunInputs inputs = neediest->run.inputs();
    neediest->live->flattening = flattening_of(inputs);
    if (plan_live_memory(inputs, *neediest->live, cluster_).required_low > limit) return std::nullopt;
    all.push_back(*std::move(neediest));
  }
  return all;
}

namespace {

bool is_alike(const Recording& a, const Recording& b) {
  return a.tape == b.tape && a.order == b.order && a.splits == b.splits &&
         std::ranges::equal(a.others, b.others, [](const Recording& one, const Recording& other) {
           return is_alike(one, other);
         });
}

/// True if two ranks hold equal parts of the model and run equal tapes: stages of a pipeline that differ in
/// how many micro-batches they have in flight.
bool is_alike(const RankRun& a, const RankRun& b) {
  return a.rank() == b.rank() && is_alike(a.recording(), b.recording());
}

}  // namespace

/// The neediest first: most plans that do not fit fail there. A stage makes the requests of a needier one
/// like it, for fewer micro-batches at once, so it is not tried where that one never has to give back what
/// the allocator caches, with room for other gaps: among 1,196 stages of 86 plans of Megatron-Core and
/// torchtitan the largest share that one took more than a needier stage like it was 3.7 %.
bool PlanContext::fits_device(const std::vector<SimulatedRank>& ranks) const {
  constexpr std::int64_t kOtherGaps = 10;  // a tenth
  std::vector<const SimulatedRank*> neediest;
  for (const SimulatedRank& each : ranks) neediest.push_back(&each);
  std::ranges::stable_sort(neediest, std::ranges::greater{},
                           [](const SimulatedRank* each) { return each->live->peak_allocated; });
  const Bytes limit = available(cluster_, headroom_);
  std::vector<const RankRun*> roomy;
  for (const SimulatedRank* each : neediest) {
    const RankRun& run = each->run;
    if (std::ranges::any_of(roomy, [&](const RankRun* other) { return is_alike(*other, run); })) continue;
    Bytes reserved;
    if (!fits_by_allocator(run.inputs(), cluster_, limit, reserved)) return false;
    if (Bytes(reserved.value / kOtherGaps) + reserved + run.outside() <= limit) roomy.push_back(&run);
  }
  return true;
}

Plan make_plan(const Model& model, const Cluster& cluster, const Training& training, const Strategy& strategy,
               Headroom headroom) {
  return PlanContext(model, cluster, training, headroom).complete(strategy);
}

}  // namespace zplan
