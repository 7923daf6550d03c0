#pragma once
// The plan of training in one way:
//   model × cluster × training × strategy → rank classes → memory, communication of each → time → plan.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/schedule.h"
#include "planner/cost/step_time.h"
#include "planner/layout/rank_class.h"
#include "planner/moments/moments.h"
#include "planner/moments/rollout.h"
#include "planner/question/headroom.h"
#include "planner/question/strategy.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/memory_plan.h"

namespace zplan {

struct Cluster;

/// Memory, traffic and shard of the ranks of one class.
struct RankPlan {
  RankClass place;
  MemoryPlan memory;
  Schedule communication;
  Shard shard;
  Seconds through;     ///< when its queues are through with the step
  bool fits_device{};  ///< while it trains
};

/// A strategy's figures: memory of each class of ranks, the time of all, moments beside the steps.
struct Plan {
  Framework framework{Framework::deepspeed};
  Strategy strategy;
  std::vector<RankPlan> ranks{RankPlan{}};  ///< by class: one, or one of each stage of a pipeline
  StepTime time;                            ///< of all ranks together
  bool measured_activations{};              ///< see Operators::measured
  std::vector<MomentMemory> moments{};      ///< of the run beside its steps, in order
  std::optional<EngineMemory> engine{};     ///< an inference engine's, where one generates what is trained on
  bool fits{};                              ///< on the device and on the host, at every moment
  bool fits_device{}, fits_host{};
  std::vector<std::string> why;        ///< one sentence each
  std::string name{};                  ///< its id where that says more than plan_id: "lora+zero2+b4"
  std::optional<Training> training{};  ///< where it is trained unlike the question says

  [[nodiscard]] std::string id() const { return name.empty() ? plan_id(framework, strategy) : name; }
  /// Returns the class of ranks that needs most device memory, the first of several.
  [[nodiscard]] const RankPlan& neediest() const {
    return *std::ranges::max_element(ranks, {}, [](const RankPlan& each) { return each.memory.required; });
  }
  /// Return figures of the neediest ranks.
  [[nodiscard]] const MemoryPlan& memory() const { return neediest().memory; }
  [[nodiscard]] const Schedule& communication() const { return neediest().communication; }
  [[nodiscard]] const Shard& shard() const { return neediest().shard; }
  /// Returns the class of ranks that is through last, the first of several.
  [[nodiscard]] const RankPlan& slowest() const {
    return *std::ranges::max_element(ranks, {}, &RankPlan::through);
  }
};

/// Returns the plan of a legal strategy.
[[nodiscard]] Plan make_plan(const Model& model, const Cluster& cluster, const Training& training,
                             const Strategy& strategy, Headroom headroom = {});

}  // namespace zplan
