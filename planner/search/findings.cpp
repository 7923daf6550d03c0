#include "planner/search/findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "planner/plan/plan_context.h"
#include "planner/plan/rank_run.h"
#include "planner/question/framework.h"
#include "planner/question/question.h"
#include "planner/search/first.h"

namespace zplan {

namespace {

/// GPUs in a node like these: as many as there are where there are several nodes, else at least the usual
/// number.
std::int64_t node_size(const Question& q) {
  const Cluster& cluster = q.cluster;
  return cluster.nodes > 1 ? cluster.gpus_per_node : std::max(cluster.node.usual_gpus, cluster.gpus_per_node);
}

/// Nothing where the device has enough, the host has not, or no GPU would have.
std::optional<Enough> what_suffices(const Plan& plan, const Question& q, PlanContext& context) {
  constexpr std::int64_t kMostGpus = 1024;
  constexpr Bytes kLargestGpu = kGiB * 1024;
  const Bytes missing = shortage(plan, q);
  Enough enough{.gpu = round_up(smallest_gpu(plan, q), kGiB.value), .gpus = {}, .nodes = {}};
  if (missing.value <= 0 || host_shortage(plan, q).value > 0 || enough.gpu > kLargestGpu) return std::nullopt;
  if (missing >= available(q.cluster, q.headroom)) return enough;
  enough.gpus = fewest_gpus(plan, q, context, kMostGpus);
  const std::int64_t node = node_size(q);
  if (enough.gpus && *enough.gpus > node) enough.nodes = *enough.gpus / node;
  return enough;
}

std::optional<DividedExperts> divided_experts(const Plan& plan, const Question& q) {
  const std::int64_t degree = plan.strategy.layout.expert;
  if (degree == 1 || !q.model.shape.experts) return std::nullopt;
  const std::int64_t all = elements(q.model.inventory, TensorRole::expert).value;
  return DividedExperts{weight_size(q.training) * all, weight_size(q.training) * (all / degree)};
}

/// Which replicated state is to blame where a lower stage does not fit.
std::optional<std::string> replicated_state(const Plan& plan, const Question& q) {
  const Strategy& s = plan.strategy;
  if (s.zero_stage == 3 || s.layout.gradient_ranks() == 1) return std::nullopt;
  return spec(plan.framework).replication(plan, q);
}

/// Of the phases of a step that generates.
const MomentMemory* worst_phase(const Plan& plan, const Training& training) {
  if (!generates(training)) return nullptr;
  const MomentMemory* worst = nullptr;
  for (const MomentMemory& each : plan.moments) {
    const bool is_phase = each.moment > RunMoment::load && each.moment != RunMoment::evaluation &&
                          each.moment < RunMoment::save_model;
    if (is_phase && (worst == nullptr || each.device > worst->device)) worst = &each;
  }
  return worst;
}

}  // namespace

Bytes smallest_gpu(const Plan& plan, const Question& q) {
  const Bytes kept_by_driver = q.cluster.memory - q.cluster.usable_memory;
  const double needed = static_cast<double>(plan.memory.required.value) / (1 - q.headroom.fraction);
  Bytes usable(static_cast<std::int64_t>(std::ceil(needed)));
  if (plan.memory.failing_start.contains(usable)) usable = plan.memory.failing_start.until;
  return usable + kept_by_driver;
}

std::optional<std::int64_t> fewest_gpus(const Plan& plan, const Question& q, PlanContext& context,
                                        std::int64_t most) {
  if (plan.strategy.zero_stage == 0) return std::nullopt;
  // Experts are divided among as many ranks on more GPUs, too.
  const std::int64_t t = std::lcm(plan.strategy.layout.of_model().world(), plan.strategy.layout.expert);
  const Bytes limit = available(q.cluster, q.headroom);
  const auto on = [&](std::int64_t gpus) {
    Strategy more = plan.strategy;
    more.layout = more.layout.filling(gpus);
    return more;
  };
  // The first of low + step, low + 2·step, … up to high that fits: the allocator is asked from where on what
  // is live leaves it open.
  const auto first = [&](std::int64_t low, std::int64_t high,
                         std::int64_t step) -> std::optional<std::int64_t> {
    const std::int64_t count = (high - low) / step;
    const auto gpus = [&](std::int64_t i) { return low + (i + 1) * step; };
    std::map<std::int64_t, std::optional<WorstRank>> live;
    const auto may_fit = [&](std::int64_t i) -> const std::optional<WorstRank>& {
      const auto [place, is_new] = live.try_emplace(i);
      if (is_new) place->second = context.may_fit(on(gpus(i)), limit);
      return place->second;
    };
    const std::int64_t open = first_that(count, [&](std::int64_t i) { return may_fit(i).has_value(); });
    const std::int64_t found = open + first_that(count - open, [&](std::int64_t i) {
                                 const std::optional<WorstRank>& worst = may_fit(open + i);
                                 return worst && context.fits_device(*worst);
                               });
    return found < count ? std::optional(gpus(found)) : std::nullopt;
  };
  // Within one node a tensor-parallel group at a time; beyond it whole nodes.
  const std::int64_t node = node_size(q);
  std::int64_t low = q.cluster.gpus;
  if (q.cluster.nodes == 1 && node > low && node % t == 0) {
    if (const auto inside = first(low, node, t)) return inside;
    low = node;
  }
  if (low >= most || low % node != 0 || node % t != 0) return std::nullopt;
  return first(low, most, node);
}

Findings findings_of(const Plan& plan, const Question& q, PlanContext& context) {
  Findings found{.enough = what_suffices(plan, q, context),
                 .replicated = replicated_state(plan, q),
                 .experts = divided_experts(plan, q),
                 .worst_phase = worst_phase(plan, training_of(plan, q)),
                 .available = available(q.cluster, q.headroom),
                 .host_available = available_on_host(q.cluster, q.headroom),
                 .missing = shortage(plan, q),
                 .host_missing = host_shortage(plan, q),
                 .gpus_per_node = q.cluster.gpus_per_node,
                 .short_moment = short_moment(plan, q),
                 .fails_as_it_starts = plan.memory.failing_start.contains(q.cluster.usable_memory),
                 .peaks = {},
                 .speeds = {},
                 .cost = run_cost(plan, q)};
  if (!plan.fits || found.worst_phase != nullptr) return found;
  const Comparable runs = comparable_to(plan, q);
  found.peaks = likely_range(AccuracyOf::memory, runs);
  found.speeds = likely_range(AccuracyOf::step_time, runs);
  return found;
}

}  // namespace zplan
