#pragma once
// How long a whole training run takes and what it costs.

#include <optional>

#include "models/base/quantity.h"
#include "planner/plan/accuracy.h"

namespace zplan {

struct Plan;
struct Question;

/// Optimizer steps of a run, their time by the wall clock and, where a price is known, their money, with the
/// range of speeds that held 80 % of comparable runs: LikelyRange::of_time is for both.
struct RunCost {
  std::int64_t steps{};
  Seconds wall;
  double gpu_hours{};
  std::optional<double> money;
  LikelyRange speeds;
};

/// Of the question's budget, at the plan's speed; nothing where there is no budget. Loading, evaluation and
/// saving are not counted. A batch that is not full is a step.
[[nodiscard]] std::optional<RunCost> run_cost(const Plan& plan, const Question& question);

}  // namespace zplan
