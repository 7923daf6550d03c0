#pragma once
// One question, one answer:
//   model × cluster × training × strategy → shards → memory, communication → time → plan.

#include <optional>
#include <string>
#include <vector>

#include "planner/cost/schedule.h"
#include "planner/cost/step_time.h"
#include "planner/moments/moments.h"
#include "planner/moments/rollout.h"
#include "planner/question/headroom.h"
#include "planner/question/strategy.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/memory_plan.h"

namespace zplan {

struct Cluster;

/// What it costs to train in one way, on the rank that needs most.
struct Plan {
  Framework framework{Framework::deepspeed};
  Strategy strategy;
  MemoryPlan memory;
  Schedule communication;
  StepTime time;
  Shard shard;
  bool measured_activations{};           ///< see Operators::measured
  std::vector<MomentMemory> moments{};   ///< of the run beside its steps, in order
  std::optional<EngineMemory> engine{};  ///< an inference engine's, where one generates what is trained on
  bool fits{};                           ///< on the device and on the host, at every moment
  bool fits_device{}, fits_host{};
  std::vector<std::string> why;        ///< one sentence each
  std::string name{};                  ///< its id where that says more than plan_id: "lora+zero2+b4"
  std::optional<Training> training{};  ///< where it is trained unlike the question says

  [[nodiscard]] std::string id() const { return name.empty() ? plan_id(framework, strategy) : name; }
};

/// The plan of a legal strategy.
[[nodiscard]] Plan make_plan(const Model& model, const Cluster& cluster, const Training& training,
                             const Strategy& strategy, Headroom headroom = {});

}  // namespace zplan
