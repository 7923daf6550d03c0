#include "planner/plan/rank_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "planner/cost/queues.h"
#include "planner/cost/schedule.h"
#include "planner/moments/rollout.h"
#include "planner/question/framework.h"
#include "planner/sharding/expert_model.h"
#include "planner/simulation/memory.h"

namespace zplan {

namespace {

RankRun::Parts record_parts(const Model& model, const Training& training, const Strategy& strategy,
                            const RankRun::Target& target, std::int64_t rank) {
  const auto place = [&](Group group) { return process_group(strategy.layout, group).place_of(rank); };
  const RecordedRank recorded{.context = place(Group::context),
                              .expert = place(Group::expert),
                              .compute_capability = target.compute_capability};
  auto own = std::make_shared<Model>(with_local_experts(model, strategy));
  return {
      own,
      std::make_shared<RankModel>(rank_model(*own, training, strategy.layout.tensor, place(Group::tensor))),
      std::make_shared<Recording>(record(*own, training, strategy, recorded))};
}

}  // namespace

RankRun::RankRun(const Model& model, const Training& training, const Strategy& strategy, Target target,
                 std::int64_t rank)
    : RankRun(record_parts(model, training, strategy, target, rank), training, strategy, target) {
  if (is_sliced())
    slice_ =
        slices_->at(static_cast<std::size_t>(process_group(strategy_.layout, Group::data).place_of(rank)));
}

RankRun::RankRun(Parts parts, const Training& training, const Strategy& strategy, Target target)
    : parts_(std::move(parts)),
      training_(training),
      strategy_(strategy),
      target_(std::move(target)),
      shard_(make_shard(*parts_.rank, training_, strategy_)),
      slices_(std::make_shared<std::vector<Slice>>(
          spec(training_.framework).slices(*parts_.rank, training_, strategy_))),
      engine_(engine_resident(training_, target_.device)),
      outside_(outside_allocator(strategy_, target_.compute_capability, target_.gpus_per_node) + engine_) {
  if (is_sliced()) slice_ = slices_->front();
}

RunInputs RankRun::inputs() const {
  return {.step = step(),
          .recording = *parts_.recording,
          .compute_capability = target_.compute_capability,
          .gpus_per_node = target_.gpus_per_node,
          .outside = outside_,
          .engine = engine_,
          .device = target_.device};
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
  return step_time(*parts_.model, training_, strategy_, cost_model.cluster(), shard_, schedule,
                   run_time(played.program, cost_model, strategy_));
}

std::vector<RankRun> RankRun::distinct_ranks() const {
  if (!is_sliced()) return {*this};
  const std::vector<Slice>& all = *slices_;
  const auto most = std::max_element(all.begin(), all.end(),
                                     [](const Slice& a, const Slice& b) { return a.touching < b.touching; }) -
                    all.begin();
  std::vector<RankRun> runs;
  for (const std::size_t each : std::set<std::size_t>{0, all.size() - 1, static_cast<std::size_t>(most)}) {
    runs.push_back(*this);
    runs.back().slice_ = all[each];
  }
  return runs;
}

WorstRank worst_rank(const RankRun& run, bool noted) {
  std::vector<RankRun> runs = run.distinct_ranks();
  if (runs.size() == 1) return {std::move(runs.front())};
  std::optional<WorstRank> worst;
  for (RankRun& each : runs) {
    RunResult live = noted ? each.live() : each.live_memory();
    if (!worst || live.peak_allocated > worst->live->peak_allocated)
      worst.emplace(WorstRank{std::move(each), std::move(live)});
  }
  return *std::move(worst);
}

}  // namespace zplan
