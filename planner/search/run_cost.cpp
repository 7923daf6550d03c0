#include "planner/search/run_cost.h"

#include <algorithm>
#include <cmath>

namespace zplan {

namespace {

/// Of speeds that a GPU was measured at, the group that is nearest to the plan's.
std::optional<Accuracy> measured_speeds(const Plan& plan, const Question& q) {
  const Training& training = plan.training ? *plan.training : q.training;
  const Coverage coverage{plan.framework, training.method, q.cluster.gpu.name};
  std::optional<Accuracy> nearest;
  for (const Accuracy& each : accuracies(AccuracyOf::step_time, coverage)) {
    if (!each.on_cards) continue;
    const bool closer = !nearest || (is_of(each, coverage) && !is_of(*nearest, coverage)) ||
                        (is_of(each, coverage) == is_of(*nearest, coverage) && each.judged > nearest->judged);
    if (closer) nearest = each;
  }
  return nearest;
}

}  // namespace

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
  cost.basis = measured_speeds(plan, q);
  if (cost.basis) cost.within = std::min(cost.basis->nine_in_ten, 1.0);
  return cost;
}

}  // namespace zplan
