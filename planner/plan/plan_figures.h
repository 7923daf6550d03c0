#pragma once
// Figures of a plan that depend on its question: what is missing, likely ranges, cost.

#include <cstdint>
#include <optional>

#include "models/base/quantity.h"
#include "planner/plan/accuracy.h"

namespace zplan {

struct MomentMemory;
struct Plan;
struct Question;
struct Training;

/// Returns how the plan trains: as the question says, unless the plan has its own training.
[[nodiscard]] const Training& training_of(const Plan& plan, const Question& question);

/// Returns the bytes missing on the device; negative where that much is to spare.
[[nodiscard]] Bytes shortage(const Plan& plan, const Question& question);
/// Returns the bytes of a node's host memory missing for the steps; negative where that much is to spare.
[[nodiscard]] Bytes host_shortage(const Plan& plan, const Question& question);
/// Returns the first moment at which device or host memory does not suffice; null where both always do.
[[nodiscard]] const MomentMemory* short_moment(const Plan& plan, const Question& question);

/// Returns the properties that measured runs must share with the plan to be comparable.
[[nodiscard]] Comparable comparable_to(const Plan& plan, const Question& question);

/// RunCost is the cost of a whole training run: its optimizer steps, their time by the wall clock and, where
/// a price is known, their money.
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

/// DividedExperts holds the 16-bit weights of all experts, and of those of one rank.
struct DividedExperts {
  Bytes all, own;
};

/// PlanFigures are what a plan means for its question, without further planning.
struct PlanFigures {
  Bytes available, host_available;     ///< of a GPU and of a node's host, less the headroom
  Bytes missing, host_missing;         ///< for the steps; negative where so much is to spare
  const MomentMemory* short_moment{};  ///< the first that does not suffice; of the plan
  const MomentMemory* worst_phase{};   ///< of a step that generates: the one that needs most of a GPU
  /// Ranges of comparable runs for a plan that fits and does not generate: no run that generates was
  /// measured.
  std::optional<LikelyRange> peaks, speeds;
  std::optional<RunCost> cost;
  std::optional<DividedExperts> experts;  ///< under expert parallelism
};
/// Returns the figures of `plan`, which outlives them.
[[nodiscard]] PlanFigures figures_of(const Plan& plan, const Question& question);

}  // namespace zplan
