#pragma once
// Makes plans of one question, which share models and recordings.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "planner/cost/step_calls.h"
#include "planner/plan/plan.h"
#include "planner/plan/rank_run.h"

namespace zplan {

/// Key of a rank's part of the model and of its recording, within one question.
struct TapeKey {
  RankClass place;  ///< without its slice
  ParallelLayout of_model;
  std::int64_t micro_batch_size{};
  bool stage3{};
  Checkpointing checkpointing{};
  LongContext long_context{};
  ExpertParallel experts{};
  std::optional<MegatronOptions> megatron{};
  std::optional<TitanOptions> torchtitan{};
  bool follows{};  ///< whether tensors of the micro-step before are still held (follows_micro_step)
  auto operator<=>(const TapeKey&) const = default;

  [[nodiscard]] static TapeKey of(const Training& training, const Strategy& strategy, const RankClass& place);
  /// Returns what micro-batches of all sizes have in common.
  [[nodiscard]] TapeKey of_any_size() const {
    TapeKey same = *this;
    same.micro_batch_size = 0;
    return same;
  }
  /// Returns what all recordings of one part of the model have in common.
  [[nodiscard]] TapeKey of_part() const {
    return {.place = place,
            .of_model = of_model,
            .experts = {.enabled = experts.enabled},
            .megatron = megatron,
            .torchtitan = torchtitan};
  }
};

/// Makes plans of one question. They share the parts of the model that ranks hold, and tapes, each made once.
/// Plans may be made from several threads at once.
class PlanContext {
 public:
  PlanContext(const Model& model, const Cluster& cluster, const Training& training, Headroom headroom)
      : model_(std::make_shared<Model>(model)), cluster_(cluster), training_(training), headroom_(headroom) {}
  PlanContext(const PlanContext&) = delete;
  PlanContext& operator=(const PlanContext&) = delete;

  /// Returns the plan of a legal strategy by live memory; `fits` asks the allocator where that leaves it
  /// open, and `memory.required` is at its low end.
  [[nodiscard]] Plan outline(const Strategy& strategy);
  /// Returns that plan without asking the allocator, which `fits` then leaves out; nothing where the live
  /// memory of some rank exceeds `most`.
  [[nodiscard]] std::optional<Plan> sketch(const Strategy& strategy, Bytes most);
  /// Returns that plan where it fits, else nothing, which takes less: the allocator is tried first.
  [[nodiscard]] std::optional<Plan> outline_if_fits(const Strategy& strategy);
  /// Returns the ranks of a strategy, the neediest of each class, where a device with `limit` bytes may run
  /// them all: `memory.required_low` of their plans is within it. Nothing where it will not.
  [[nodiscard]] std::optional<std::vector<SimulatedRank>> may_fit(const Strategy& strategy, Bytes limit);
  /// Returns whether available memory suffices for them by the allocator: `fits_device` of an outline.
  [[nodiscard]] bool fits_device(const std::vector<SimulatedRank>& ranks) const;
  /// Returns the plan with all its figures.
  [[nodiscard]] Plan complete(const Strategy& strategy);
  /// Returns the time of a step of a legal strategy, whether it fits or not.
  [[nodiscard]] StepTime time(const Strategy& strategy);
  /// Returns the calls of a step of a legal strategy in order of issue, by the run that complete() uses.
  [[nodiscard]] StepCalls calls(const Strategy& strategy);

  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] const Training& training() const { return training_; }
  [[nodiscard]] Headroom headroom() const { return headroom_; }
  /// Returns the runs of a strategy's rank classes, slices aside.
  [[nodiscard]] std::vector<RankRun> runs(const Strategy& strategy);
  /// Returns the run of the first of them.
  [[nodiscard]] RankRun run(const Strategy& strategy) {
    return run(strategy, rank_classes(strategy.layout).front());
  }
  /// Returns the parameters that ranks of the first class hold.
  [[nodiscard]] const RankModel& rank_of(const Strategy& strategy) {
    return *part(strategy, rank_classes(strategy.layout).front()).rank;
  }
  /// Returns the recording of the first class.
  [[nodiscard]] const Recording& recording_of(const Strategy& strategy) {
    return *shared_recording(strategy, rank_classes(strategy.layout).front());
  }

 private:
  enum class Depth : std::uint8_t { outline, complete };
  /// A class' part of the model.
  struct Part {
    std::shared_ptr<const Model> model;
    std::shared_ptr<const RankModel> rank;
  };
  [[nodiscard]] RankRun run(const Strategy& strategy, const RankClass& place);
  [[nodiscard]] std::vector<SimulatedRank> ranks(const Strategy& strategy);
  /// Returns them with their live runs; nothing where one of them needs more than `most`.
  [[nodiscard]] std::optional<std::vector<SimulatedRank>> live_ranks(const Strategy& strategy, Bytes most);
  [[nodiscard]] Plan plan(std::vector<SimulatedRank> ranks, Depth depth, std::optional<bool> has_room);
  [[nodiscard]] RankPlan plan(SimulatedRank& rank, Depth depth, std::optional<bool> has_room,
                              RunResult& played);
  /// Simulates the run of a whole plan.
  [[nodiscard]] RunResult full(const SimulatedRank& rank) const;
  [[nodiscard]] const Part& part(const Strategy& strategy, const RankClass& place);
  [[nodiscard]] const std::shared_ptr<const Recording>& shared_recording(const Strategy& strategy,
                                                                         const RankClass& place);

  /// A recording that the first thread to need it makes, while others wait for it alone.
  struct Recorded {
    std::once_flag once;
    std::shared_ptr<const Recording> recording;
  };
  std::mutex mutex_;  ///< of the maps; what they hold does not move

  std::shared_ptr<const Model> model_;
  const Cluster& cluster_;
  const Training& training_;
  Headroom headroom_;
  std::map<TapeKey, Part> parts_;
  std::map<TapeKey, Recorded> recordings_;
};

}  // namespace zplan
