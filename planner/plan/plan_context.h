#pragma once
// What is worked out once for all plans of one question.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "hardware_profiles/cluster.h"
#include "planner/cost/step_calls.h"
#include "planner/plan/plan.h"
#include "planner/plan/rank_run.h"

namespace zplan {

/// What plans of one question share, made once each: the model as a tensor-parallel rank has it, and tapes.
/// Plans may be made from several threads at once.
class PlanContext {
 public:
  PlanContext(const Model& model, const Cluster& cluster, const Training& training, Headroom headroom)
      : model_(std::make_shared<Model>(model)), cluster_(cluster), training_(training), headroom_(headroom) {}
  PlanContext(const PlanContext&) = delete;
  PlanContext& operator=(const PlanContext&) = delete;

  /// The plan of a legal strategy by live memory; `fits` asks the allocator where that leaves it open, and
  /// `memory.required` is at its low end.
  [[nodiscard]] Plan outline(const Strategy& strategy);
  /// The same where it fits, else nothing, which takes less: the allocator is asked first.
  [[nodiscard]] std::optional<Plan> outline_if_fits(const Strategy& strategy);
  /// The neediest rank of a strategy that a device with `limit` bytes may run: `memory.required_low` of its
  /// plan is within them. Nothing where none will.
  [[nodiscard]] std::optional<WorstRank> may_fit(const Strategy& strategy, Bytes limit);
  /// Whether available memory suffices for it by the allocator: `fits_device` of its outline.
  [[nodiscard]] bool fits_device(const WorstRank& worst) const;
  /// The plan with all its figures.
  [[nodiscard]] Plan complete(const Strategy& strategy);
  /// What a step of a legal strategy takes, whether it fits or not.
  [[nodiscard]] StepTime time(const Strategy& strategy);
  /// The calls of a step of a legal strategy in order of issue, by the run that complete() is made from.
  [[nodiscard]] StepCalls calls(const Strategy& strategy);

  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] const Training& training() const { return training_; }
  [[nodiscard]] Headroom headroom() const { return headroom_; }
  /// The run of data-parallel rank 0.
  [[nodiscard]] RankRun run(const Strategy& strategy);
  /// The model as a rank has it.
  [[nodiscard]] const RankModel& rank_of(const Strategy& strategy) { return *shared_rank(strategy); }
  /// The tape of its micro-step.
  [[nodiscard]] const Recording& recording_of(const Strategy& strategy) {
    return *shared_recording(strategy);
  }

 private:
  struct TapeKey {
    ParallelLayout of_model;
    std::int64_t micro_batch_size{};
    bool stage3{};
    Checkpointing checkpointing{};
    LongContext long_context{};
    ExpertParallel experts{};
    bool follows{};  ///< whether it finds there what a micro-step before it left: follows_micro_step
    auto operator<=>(const TapeKey&) const = default;
  };
  enum class Depth : std::uint8_t { outline, complete };
  [[nodiscard]] Plan plan(const Strategy& strategy, Depth depth);
  [[nodiscard]] Plan plan(const WorstRank& worst, Depth depth, std::optional<bool> has_room);
  /// The run of a whole plan.
  [[nodiscard]] RunResult full(const WorstRank& worst) const;
  /// The model with the experts of one rank.
  [[nodiscard]] const std::shared_ptr<const Model>& shared_model(const Strategy& strategy);
  [[nodiscard]] const std::shared_ptr<const RankModel>& shared_rank(const Strategy& strategy);
  [[nodiscard]] const std::shared_ptr<const Recording>& shared_recording(const Strategy& strategy);

  /// Made by whoever asks first; others wait for that alone.
  struct Recorded {
    std::once_flag once;
    std::shared_ptr<const Recording> recording;
  };
  std::mutex mutex_;  ///< of the maps; what they hold does not move

  std::shared_ptr<const Model> model_;
  const Cluster& cluster_;
  const Training& training_;
  Headroom headroom_;
  /// By layout, and whether experts are divided among ranks.
  using ModelKey = std::pair<ParallelLayout, bool>;
  std::map<ModelKey, std::shared_ptr<const Model>> models_;
  std::map<ModelKey, std::shared_ptr<const RankModel>> ranks_;
  std::map<TapeKey, Recorded> recordings_;
};

}  // namespace zplan
