#pragma once
// How long a whole training run takes and what it costs.

#include <optional>

#include "planner/accuracy.h"
#include "planner/search/search.h"

namespace zplan {

/// Optimizer steps of a run, their time by the wall clock and, where a price is known, their money, with the
/// range that held 80 % of comparable step times.
struct RunCost {
  std::int64_t steps{};
  Seconds wall;
  double gpu_hours{};
  std::optional<double> money;
  LikelyRange range;
  [[nodiscard]] double low(double of) const { return of * range.low; }
  [[nodiscard]] double high(double of) const { return of * range.high; }
};

/// Of the question's budget, at the plan's speed; nothing where there is no budget. Loading, evaluation and
/// saving are not counted. A batch that is not full is a step.
[[nodiscard]] std::optional<RunCost> run_cost(const Plan& plan, const Question& question);

}  // namespace zplan
