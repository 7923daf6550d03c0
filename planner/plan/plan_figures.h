#pragma once
// What a plan's figures say to the question that it answers.

#include <cstdint>
#include <optional>

#include "models/base/quantity.h"
#include "planner/plan/accuracy.h"

namespace zplan {

struct MomentMemory;
struct Plan;
struct Question;
struct Training;

/// How the plan trains: as the question says, unless it is a way of its own.
[[nodiscard]] const Training& training_of(const Plan& plan, const Question& question);

/// Bytes missing on the device; negative where that much is to spare.
[[nodiscard]] Bytes shortage(const Plan& plan, const Question& question);
/// Bytes of a node's host memory missing for the steps; negative where that much is to spare.
[[nodiscard]] Bytes host_shortage(const Plan& plan, const Question& question);
/// The first moment at which device or host memory does not suffice; null where both always do.
[[nodiscard]] const MomentMemory* short_moment(const Plan& plan, const Question& question);

/// What makes measured runs comparable to the plan.
[[nodiscard]] Comparable comparable_to(const Plan& plan, const Question& question);

/// What a whole training run costs: its optimizer steps, their time by the wall clock and, where a price is
/// known, their money.
struct RunCost {
  std::int64_t steps{};
  Seconds wall;
  double gpu_hours{};
  std::optional<double> money;
  LikelyRange speeds;  ///< held 80 % of comparable runs; LikelyRange::of_time turns it into time or money
};

/// Returns the cost of the question's budget at the plan's speed; nothing where there is no budget. Loading,
/// evaluation and saving are not counted. A batch that is not full is a step.
[[nodiscard]] std::optional<RunCost> run_cost(const Plan& plan, const Question& question);

/// 16-bit weights of all experts, and of those of one rank.
struct DividedExperts {
  Bytes all, own;
};

/// What a plan means for its question, without further planning.
struct PlanFigures {
  Bytes available, host_available;     ///< of a GPU and of a node's host, less the headroom
  Bytes missing, host_missing;         ///< for the steps; negative where so much is to spare
  const MomentMemory* short_moment{};  ///< the first that does not suffice; of the plan
  const MomentMemory* worst_phase{};   ///< of a step that generates: the one that needs most of a GPU
  /// Of comparable runs; of a plan that fits and does not generate: none that does was measured, and an
  /// engine's share of memory is as it is given.
  std::optional<LikelyRange> peaks, speeds;
  std::optional<RunCost> cost;
  std::optional<DividedExperts> experts;  ///< under expert parallelism
};
/// `plan` outlives them.
[[nodiscard]] PlanFigures figures_of(const Plan& plan, const Question& question);

}  // namespace zplan
