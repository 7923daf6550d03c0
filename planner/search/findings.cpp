#include "planner/search/findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "planner/plan/plan_context.h"
#include "planner/plan/rank_run.h"
#include "planner/question/framework.h"
#include "planner/question/question.h"
#include "planner/question/work.h"

namespace zplan {

namespace {

/// GPUs in a node like these: as many as there are where there are several nodes, else at least the usual
/// number.
std::int64_t node_size(const Question& q) {
  const Cluster& cluster = q.cluster;
  return cluster.nodes > 1 ? cluster.gpus_per_node : std::max(cluster.node.usual_gpus, cluster.gpus_per_node);
}

/// Returns nothing where the device has enough memory, the host has too little, or no GPU would have enough.
std::optional<Enough> what_suffices(const Plan& plan, const Question& q, const PlanFigures& figures,
                                    PlanContext& context) {
  constexpr std::int64_t kMostGpus = 1024;
  constexpr Bytes kLargestGpu = kGiB * 1024;
  if (figures.missing.value <= 0 || figures.host_missing.value > 0) return std::nullopt;
  Enough enough{.gpu = smallest_gpu(plan, q), .gpus = {}, .nodes = {}};
  if (enough.gpu > kLargestGpu) return std::nullopt;
  if (figures.missing < figures.available) {
    enough.gpus = fewest_gpus(plan, q, context, kMostGpus);
    const std::int64_t node = node_size(q);
    if (enough.gpus && *enough.gpus > node) enough.nodes = *enough.gpus / node;
  }
  enough.gpu = round_up(enough.gpu, kGiB.value);
  return enough;
}

/// Returns the replicated state that is to blame where a lower stage does not fit.
std::optional<std::string> replicated_state(const Plan& plan, const Question& q) {
  const Strategy& s = plan.strategy;
  if (s.zero_stage == 3 || s.layout.gradient_ranks() == 1) return std::nullopt;
  return spec(plan.framework).replication(plan, q);
}

}  // namespace

Bytes smallest_gpu(const Plan& plan, const Question& q) {
  const Bytes kept_by_driver = q.cluster.memory - q.cluster.usable_memory;
  const double needed = static_cast<double>(plan.memory().required.value) / (1 - q.headroom.fraction);
  Bytes usable(static_cast<std::int64_t>(std::ceil(needed)));
  if (plan.memory().failing_start.contains(usable)) usable = plan.memory().failing_start.until;
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
  // Returns the first of low + step, low + 2·step, … up to high that fits. Live memory rules out the smaller
  // ones, the allocator decides among the rest.
  const auto first = [&](std::int64_t low, std::int64_t high,
                         std::int64_t step) -> std::optional<std::int64_t> {
    const std::int64_t count = (high - low) / step;
    const auto gpus = [&](std::int64_t i) { return low + (i + 1) * step; };
    std::map<std::int64_t, std::optional<std::vector<SimulatedRank>>> live;
    const auto may_fit = [&](std::int64_t i) -> const std::optional<std::vector<SimulatedRank>>& {
      const auto [place, is_new] = live.try_emplace(i);
      if (is_new) place->second = context.may_fit(on(gpus(i)), limit);
      return place->second;
    };
    const std::int64_t open = first_that(count, [&](std::int64_t i) { return may_fit(i).has_value(); });
    const std::int64_t found = open + first_that(count - open, [&](std::int64_t i) {
                                 const std::optional<std::vector<SimulatedRank>>& ranks = may_fit(open + i);
                                 return ranks && context.fits_device(*ranks);
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
  Findings found{figures_of(plan, q)};
  found.gpus_per_node = q.cluster.gpus_per_node;
  found.fails_as_it_starts = plan.memory().failing_start.contains(q.cluster.usable_memory);
  found.replicated = replicated_state(plan, q);
  found.enough = what_suffices(plan, q, found, context);
  return found;
}

}  // namespace zplan
