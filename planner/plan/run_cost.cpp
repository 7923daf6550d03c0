#include "planner/plan/run_cost.h"

#include <algorithm>
#include <cmath>

#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/question/question.h"

namespace zplan {

std::optional<RunCost> run_cost(const Plan& plan, const Question& q) {
  if (!q.budget.is_known()) return std::nullopt;
  const double of_step = static_cast<double>(plan.strategy.global_batch_size()) *
                         (q.budget.samples ? 1.0 : static_cast<double>(q.training.sequence_length));
  const auto given = static_cast<double>(q.budget.samples ? *q.budget.samples : *q.budget.tokens);
  RunCost cost;
  cost.steps = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(std::ceil(given / of_step) * q.budget.epochs)));
  cost.wall = Seconds(static_cast<double>(cost.steps) * plan.time.step.value);
  constexpr double kHour = 3600;
  cost.gpu_hours = cost.wall.value / kHour * static_cast<double>(q.cluster.gpus);
  if (q.budget.price) cost.money = cost.gpu_hours * *q.budget.price;
  cost.speeds = likely_range(AccuracyOf::step_time, comparable_to(plan, q));
  return cost;
}

}  // namespace zplan
