#pragma once
// One question, one answer:
//   model × cluster × training × strategy → shards → memory, communication → time → plan.

#include <string>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "planner/communication/schedule.h"
#include "planner/memory/memory.h"
#include "planner/strategy.h"
#include "planner/time/step_time.h"

namespace zplan {

/// What it costs to train in one way, on the rank that needs most.
struct Plan {
  Strategy strategy;
  MemoryPlan memory;
  Schedule communication;
  StepTime time;
  Shard shard;
  bool measured_activations{};  ///< see Activations::measured
  bool fits{};                  ///< on the device and on the host
  bool fits_device{}, fits_host{};
  std::vector<std::string> why;  ///< one sentence each

  [[nodiscard]] std::string id() const { return strategy_id(strategy); }
};

/// The share of a card that is left free beyond everything the plan counts.
struct Headroom {
  double fraction{0.10};
};

/// Device bytes that `required` may take: usable memory less the headroom.
[[nodiscard]] Bytes available(const Cluster& cluster, Headroom headroom);
/// Host bytes that offload may take on one node: its memory less the same share, for the system, the training
/// processes and the data loader.
[[nodiscard]] Bytes available_on_host(const Cluster& cluster, Headroom headroom);

/// The plan of a legal strategy. `rank` must be rank_model(model, training, strategy.tensor_parallel): it is
/// the same for all stages, so a search makes it once.
[[nodiscard]] Plan make_plan(const Model& model, const Cluster& cluster, const Training& training,
                             const Strategy& strategy, const RankModel& rank, Headroom headroom);
[[nodiscard]] Plan make_plan(const Model& model, const Cluster& cluster, const Training& training,
                             const Strategy& strategy, Headroom headroom = {});

}  // namespace zplan
