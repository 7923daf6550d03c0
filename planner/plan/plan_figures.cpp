#include "planner/plan/plan_figures.h"

#include <algorithm>
#include <cmath>

#include "hardware_profiles/link_speed.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan {

const Training& training_of(const Plan& plan, const Question& q) {
  return plan.training ? *plan.training : q.training;
}

Bytes shortage(const Plan& plan, const Question& q) {
  return plan.memory().required - available(q.cluster, q.headroom);
}

Bytes host_shortage(const Plan& plan, const Question& q) {
  return plan.memory().host.total - available_on_host(q.cluster, q.headroom);
}

const MomentMemory* short_moment(const Plan& plan, const Question& q) {
  return short_moment(plan.moments, available(q.cluster, q.headroom),
                      available_on_host(q.cluster, q.headroom));
}

namespace {

/// Returns the step with collectives that take `longer` times as long, of which as much is hidden as is now.
Seconds step_with(const StepTime& time, double longer) {
  const Seconds hidden = time.communication - time.exposed_communication;
  const Seconds exposed = std::max(Seconds{}, time.communication * longer - hidden);
  return time.step - time.exposed_communication + exposed;
}

/// True if the step's collectives go through the host's memory as fast as hosts are taken to allow.
bool has_assumed_path(const Cluster& cluster) {
  return cluster.nodes == 1 && cluster.gpus > 1 && cluster.node.fabric == Fabric::pcie_host &&
         cluster.inside_source.starts_with("assumed:");
}

}  // namespace

Comparable comparable_to(const Plan& plan, const Question& q) {
  Comparable runs = comparable(plan.framework, training_of(plan, q).method, q.cluster.gpu, plan.strategy);
  if (!has_assumed_path(q.cluster)) return runs;
  const double now = q.cluster.inside.all_gather.value;
  const double best = q.cluster.gpu.pcie_effective.value * q.cluster.node.link_fraction;
  runs.slowest_path = plan.time.step.value / step_with(plan.time, now / slowest_host_path().value).value;
  runs.fastest_path = plan.time.step.value / step_with(plan.time, now / best).value;
  return runs;
}

namespace {

/// Returns the phase of a step that generates which needs most of a GPU; null for other steps.
const MomentMemory* worst_phase(const Plan& plan, const Training& training) {
  if (!rolls_out(training)) return nullptr;
  const MomentMemory* worst = nullptr;
  for (const MomentMemory& each : plan.moments) {
    const bool is_phase = each.moment > RunMoment::load && each.moment != RunMoment::evaluation &&
                          each.moment < RunMoment::save_model;
    if (is_phase && (worst == nullptr || each.device > worst->device)) worst = &each;
  }
  return worst;
}

/// Returns what a run costs whose speed is that of comparable `runs`.
std::optional<RunCost> cost_of(const Plan& plan, const Question& q, const Comparable& runs) {
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
  cost.speeds = likely_range(AccuracyOf::step_time, runs);
  return cost;
}

std::optional<DividedExperts> divided_experts(const Plan& plan, const Question& q, Bytes weight,
                                              Elements all) {
  const std::int64_t degree = plan.strategy.layout.expert;
  if (degree == 1 || !q.model.shape.experts) return std::nullopt;
  return DividedExperts{weight * all.value, weight * (all.value / degree)};
}

}  // namespace

std::optional<RunCost> run_cost(const Plan& plan, const Question& q) {
  return cost_of(plan, q, comparable_to(plan, q));
}

PlanFigures figures_of(const Plan& plan, const Question& q) {
  const Comparable runs = comparable_to(plan, q);
  const Elements experts = elements(q.model.inventory, TensorRole::expert);
  const Bytes weight = weight_size(q.training);
  PlanFigures figures{.available = available(q.cluster, q.headroom),
                      .host_available = available_on_host(q.cluster, q.headroom),
                      .missing = {},
                      .host_missing = {},
                      .short_moment = {},
                      .worst_phase = worst_phase(plan, training_of(plan, q)),
                      .peaks = {},
                      .speeds = {},
                      .cost = cost_of(plan, q, runs),
                      .experts = divided_experts(plan, q, weight, experts)};
  figures.missing = plan.memory().required - figures.available;
  figures.host_missing = plan.memory().host.total - figures.host_available;
  figures.short_moment = short_moment(plan.moments, figures.available, figures.host_available);
  if (!plan.fits || figures.worst_phase != nullptr) return figures;
  figures.peaks = likely_range(AccuracyOf::memory, runs);
  figures.speeds = likely_range(AccuracyOf::step_time, runs);
  return figures;
}

}  // namespace zplan
