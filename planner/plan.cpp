#include "planner/plan.h"

#include <algorithm>
#include <optional>
#include <set>

#include "planner/activations/causal_lm.h"
#include "planner/memory/cards.h"
#include "planner/time/price.h"

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

const RankModel& PlanContext::rank_of(const Strategy& strategy) {
  const std::lock_guard lock(mutex_);
  const auto [at, missing] = ranks_.try_emplace(strategy.tensor_parallel);
  if (missing) at->second = rank_model(model_, training_, strategy.tensor_parallel);
  return at->second;
}

const Recording& PlanContext::recording_of(const Strategy& strategy) {
  const TapeKey key{strategy.tensor_parallel, strategy.micro_batch_size, strategy.zero_stage == 3,
                    strategy.checkpointing};
  Recorded& slot = [&]() -> Recorded& {
    const std::lock_guard lock(mutex_);
    return recordings_[key];
  }();
  std::call_once(slot.once, [&] { slot.recording = record(model_, training_, strategy); });
  return slot.recording;
}

namespace {

/// A rank's slice, and its run by live memory where that told which rank it is.
struct NeediestRank {
  Slice slice;
  std::optional<RunResult> live{};
};

/// The rank that needs most; where nothing is sliced they are alike.
NeediestRank neediest_rank(const RunInputs& run) {
  const StepInputs& in = run.step;
  const std::vector<Slice> asked = neediest_slices(in.rank, in.training, in.strategy);
  NeediestRank neediest;
  if (asked.size() == 1) return {asked.front(), {}};
  for (const Slice& each : asked) {
    const StepInputs step{in.model, in.training, in.strategy, in.rank, in.shard, each};
    RunResult live = simulate_live({.step = step,
                                    .recording = run.recording,
                                    .compute_capability = run.compute_capability,
                                    .gpus_per_node = run.gpus_per_node});
    if (!neediest.live || live.peak_allocated > neediest.live->peak_allocated)
      neediest = {each, std::move(live)};
  }
  return neediest;
}

/// What PyTorch keeps and cannot use depends on the card, so that some cards run out of memory between a
/// smaller and a larger one that do not. So the card itself has to complete the run, and some card within
/// `room`, which is what the headroom leaves of its memory.
bool completes_itself(const Cluster& cluster, const MemoryPlan& memory, Cards& cards) {
  return !memory.failing_start.contains(cluster.usable_memory) && cards.completes_on(cluster.usable_memory);
}

bool fits_by_allocator(const RunInputs& run, const Cluster& cluster, Bytes room) {
  const RunResult played = simulate(run);
  Cards cards(run, played);
  const MemoryPlan memory = plan_live_memory(run, played, cluster);
  return memory.required_low <= room && completes_itself(cluster, memory, cards) &&
         (cards.completes_within(room) || cards.smallest_is_within(room));
}

/// The same of a whole plan. `required`, which was bisected to half a percent and as if larger cards never
/// had less room than smaller ones, is made to say it too.
bool fits_by_allocator(const Cluster& cluster, Bytes room, Cards& cards, MemoryPlan& memory) {
  if (memory.required_low > room) return false;
  if (memory.required > room && !cards.completes_within(room)) return false;
  memory.required = std::min(memory.required, room);
  if (completes_itself(cluster, memory, cards)) return true;
  memory.required = cards.smallest(cluster.usable_memory);
  memory.required_high = std::max(memory.required_high, memory.required);
  return false;
}

}  // namespace

std::vector<Slice> neediest_slices(const RankModel& rank, const Training& training,
                                   const Strategy& strategy) {
  if (strategy.zero_stage != 1 && strategy.zero_stage != 2) return {Slice{}};
  const std::vector<Slice> all = slices(rank, training, strategy);
  const auto most = std::max_element(all.begin(), all.end(),
                                     [](const Slice& a, const Slice& b) { return a.touching < b.touching; }) -
                    all.begin();
  std::vector<Slice> asked;
  for (const std::size_t each : std::set<std::size_t>{0, all.size() - 1, static_cast<std::size_t>(most)})
    asked.push_back(all[each]);
  return asked;
}

Plan PlanContext::plan(const Strategy& strategy, Depth depth) {
  const RankModel& rank = rank_of(strategy);
  const Recording& recording = recording_of(strategy);
  Plan plan;
  plan.framework = training_.framework;
  plan.strategy = strategy;
  plan.shard = make_shard(rank, training_, strategy);
  Slice slice;
  const StepInputs step{model_, training_, strategy, rank, plan.shard, slice};
  Pace pace(recording.tape, cluster_, training_, strategy);
  const RunInputs run{
      .step = step,
      .recording = recording,
      .compute_capability = cluster_.gpu.compute_capability,
      .gpus_per_node = cluster_.gpus_per_node,
      .outside = outside_allocator(strategy, cluster_.gpu.compute_capability, cluster_.gpus_per_node)};
  const NeediestRank neediest = neediest_rank(run);
  slice = neediest.slice;
  plan.measured_activations = is_measured(model_.shape);
  const Bytes room = available(cluster_, headroom_);
  const bool complete = depth == Depth::complete;
  RunResult played = complete ? simulate(run) : neediest.live ? *neediest.live : simulate_live(run);
  if (complete) {
    Cards cards(run, played);
    plan.memory = plan_memory(run, played, cluster_, cards);
    plan.fits_device = fits_by_allocator(cluster_, room, cards, plan.memory);
  } else {
    played.flattening = flattening_of(run);
    plan.memory = plan_live_memory(run, played, cluster_);
    if (depth == Depth::live) return plan;
    plan.fits_device = plan.memory.required_low <= room && fits_by_allocator(run, cluster_, room);
  }
  plan.communication = schedule(played.calls, training_, strategy, rank, plan.shard);
  if (complete) price(plan.communication, played.calls, pace);
  plan.time = step_time(model_, training_, strategy, cluster_, plan.shard, plan.communication,
                        run_time(played.program, pace, strategy));
  plan.fits_host = plan.memory.host.total <= available_on_host(cluster_, headroom_);
  plan.fits = plan.fits_device && plan.fits_host;
  return plan;
}

StepTime PlanContext::time(const Strategy& strategy) {
  const RankModel& rank = rank_of(strategy);
  const Recording& recording = recording_of(strategy);
  const Shard shard = make_shard(rank, training_, strategy);
  Slice slice;
  if (strategy.zero_stage == 1 || strategy.zero_stage == 2) slice = slices(rank, training_, strategy).front();
  Pace pace(recording.tape, cluster_, training_, strategy);
  const StepInputs step{model_, training_, strategy, rank, shard, slice};
  const RunResult run = simulate_live({.step = step,
                                       .recording = recording,
                                       .compute_capability = cluster_.gpu.compute_capability,
                                       .gpus_per_node = cluster_.gpus_per_node});
  return step_time(model_, training_, strategy, cluster_, shard,
                   schedule(run.calls, training_, strategy, rank, shard),
                   run_time(run.program, pace, strategy));
}

StepCalls PlanContext::calls(const Strategy& strategy) {
  const RankModel& rank = rank_of(strategy);
  const Recording& recording = recording_of(strategy);
  const Shard shard = make_shard(rank, training_, strategy);
  Slice slice;
  const StepInputs step{model_, training_, strategy, rank, shard, slice};
  const RunInputs run{.step = step,
                      .recording = recording,
                      .compute_capability = cluster_.gpu.compute_capability,
                      .gpus_per_node = cluster_.gpus_per_node};
  const NeediestRank neediest = neediest_rank(run);
  slice = neediest.slice;
  Pace pace(recording.tape, cluster_, training_, strategy);
  const StepProgram program = neediest.live ? neediest.live->program : simulate_live(run).program;
  return step_calls(program, pace, strategy.gradient_accumulation_steps);
}

Plan PlanContext::outline(const Strategy& strategy) { return plan(strategy, Depth::outline); }
Plan PlanContext::complete(const Strategy& strategy) { return plan(strategy, Depth::complete); }
Bytes PlanContext::least_required(const Strategy& strategy) {
  return plan(strategy, Depth::live).memory.required_low;
}

Plan make_plan(const Model& model, const Cluster& cluster, const Training& training, const Strategy& strategy,
               Headroom headroom) {
  return PlanContext(model, cluster, training, headroom).complete(strategy);
}

}  // namespace zplan
