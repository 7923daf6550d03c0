#include "planner/plan/rank_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "planner/cost/queues.h"
#include "planner/cost/schedule.h"
#include "planner/moments/rollout.h"
#include "planner/question/framework.h"
#include "planner/sharding/model_part.h"
#include "planner/simulation/memory.h"
#include "planner/step/step_schedule.h"

namespace zplan {

namespace {

RankRun::Parts record_parts(const Model& model, const Training& training, const Strategy& strategy,
                            const RankRun::Target& target, const RankClass& place) {
  auto part = std::make_shared<Model>(model_part(model, strategy, place));
  return {part, std::make_shared<RankModel>(rank_model(*part, training, strategy, place)),
          std::make_shared<Recording>(record(*part, training, strategy, place, target.compute_capability))};
}

}  // namespace

RankRun::RankRun(const Model& model, const Training& training, const Strategy& strategy, const Target& target,
                 std::int64_t rank)
    : RankRun(model, training, strategy, target, class_of(strategy.layout, rank)) {}

RankRun::RankRun(const Model& model, const Training& training, const Strategy& strategy, const Target& target,
                 const RankClass& place)
    : RankRun(record_parts(model, training, strategy, target, place), training, strategy, target, place) {}

RankRun::RankRun(Parts parts, const Training& training, const Strategy& strategy, Target target,
                 const RankClass& place)
    : parts_(std::move(parts)),
      place_(place),
      training_(training),
      strategy_(strategy),
      target_(std::move(target)),
      shard_(make_shard(*parts_.rank, training_, strategy_)),
      slices_(std::make_shared<std::vector<Slice>>(
          spec(training_.framework).slices(*parts_.rank, training_, strategy_))),
      engine_(engine_resident(training_, target_.device)),
      outside_(outside_allocator(strategy_, target_.compute_capability, target_.gpus_per_node) + engine_) {
  if (strategy_.layout.pipeline > 1)
    schedule_ = std::make_shared<StepSchedule>(schedule_of_stage(training_, strategy_, place.stage));
  if (is_sliced()) slice_ = slices_->at(static_cast<std::size_t>(place.slice));
}

RunInputs RankRun::inputs() const {
  return {.step = step(),
          .recording = *parts_.recording,
          .compute_capability = target_.compute_capability,
          .gpus_per_node = target_.gpus_per_node,
          .outside = outside_,
          .engine = engine_,
          .device = target_.device,
          .place = place_,
          .schedule = schedule_.get()};
}

RunResult RankRun::live_memory() const {
  RunInputs memory_alone = inputs();
  memory_alone.notes_calls = false;
  return simulate_live(memory_alone);
}

Schedule RankRun::schedule(const RunResult& played) const {
  return zplan::schedule(played.calls, training_, strategy_, *parts_.rank, shard_);
}

StepTime RankRun::time(const RunResult& played, const Schedule& schedule, CostModel& cost_model) const {
  return time(run_time(played.program, cost_model, strategy_), schedule, cost_model.cluster(), *parts_.model);
}

std::vector<RankRun> RankRun::of_slices() const {
  if (!is_sliced()) return {*this};
  const std::vector<Slice>& all = *slices_;
  const auto most = std::max_element(all.begin(), all.end(),
                                     [](const Slice& a, const Slice& b) { return a.touching < b.touching; }) -
                    all.begin();
  std::vector<RankRun> runs;
  for (const std::size_t each : std::set<std::size_t>{0, all.size() - 1, static_cast<std::size_t>(most)}) {
    runs.push_back(*this);
    runs.back().slice_ = all[each];
    runs.back().place_.slice = static_cast<std::int64_t>(each);
  }
  return runs;
}

SimulatedRank neediest_slice(const RankRun& run, bool noted) {
  std::vector<RankRun> runs = run.of_slices();
  if (runs.size() == 1) return {std::move(runs.front())};
  std::optional<SimulatedRank> neediest;
  for (RankRun& each : runs) {
    RunResult live = noted ? each.live() : each.live_memory();
    if (!neediest || live.peak_allocated > neediest->live->peak_allocated)
      neediest.emplace(SimulatedRank{std::move(each), std::move(live)});
  }
  return *std::move(neediest);
}

}  // namespace zplan
