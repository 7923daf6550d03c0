#pragma once
// How long a whole training run takes and what it costs.

#include <optional>

#include "planner/accuracy.h"
#include "planner/search/search.h"

namespace zplan {

/// Optimizer steps of a run, their time by the wall clock and, where a price is known, their money. `low` and
/// `high`: as far apart as nine in ten predicted speeds of `basis` were off; absent where nothing comparable
/// was measured.
struct RunCost {
  std::int64_t steps{};
  Seconds wall;
  double gpu_hours{};
  std::optional<double> money;
  double within{};  ///< error of speeds in `basis`, as a fraction: 0.2 is wall · 0.8 to wall · 1.2
  std::optional<Accuracy> basis;
  [[nodiscard]] double low(double of) const { return of * (1 - within); }
  [[nodiscard]] double high(double of) const { return of * (1 + within); }
};

/// Of the question's budget, at the plan's speed; nothing where there is no budget. Loading, evaluation and
/// saving are not counted. A batch that is not full is a step.
[[nodiscard]] std::optional<RunCost> run_cost(const Plan& plan, const Question& question);

}  // namespace zplan
