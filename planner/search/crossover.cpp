#include "planner/search/crossover.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "hardware_profiles/collective_cost.h"
#include "planner/plan/plan_context.h"

namespace zplan {

namespace {

/// Bus bandwidth of a long all_gather over the GPUs of a node, as the planner prices it.
BytesPerSecond bus_inside(const Cluster& cluster) {
  constexpr Bytes kLong = kGiB * 4;
  const GroupPlace node{.ranks = cluster.gpus_per_node, .nodes = 1, .side_by_side = 1};
  const Seconds time = CollectivePricer(cluster, Operation::all_gather, node).time(kLong);
  const auto ranks = static_cast<double>(node.ranks);
  return BytesPerSecond(static_cast<double>(kLong.value) * (ranks - 1) / ranks / time.value);
}

/// The entrant's own training; else the question's, or what that becomes under another framework.
Training training_of(const Question& question, const Entrant& entrant) {
  const Training& training = entrant.training ? *entrant.training : question.training;
  return entrant.framework == training.framework ? training : with_framework(training, entrant.framework);
}

bool negative(double value) { return value < 0; }

double bisect(const std::function<double(double)>& f, double low, double high) {
  constexpr double kClose = 1e-4;
  const bool below = negative(f(low));
  while (high / low > 1 + kClose) {
    const double middle = std::sqrt(low * high);
    (negative(f(middle)) == below ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

}  // namespace

std::optional<double> nearest_sign_change(const std::function<double(double)>& f, double most) {
  struct Side {
    double factor, step;
    bool sign;
  };
  const bool sign = negative(f(1));
  std::array<Side, 2> sides{Side{1, 0.5, sign}, Side{1, 2, sign}};
  while (sides[1].factor < most)
    for (Side& side : sides) {
      const double next = std::clamp(side.factor * side.step, 1 / most, most);
      if (negative(f(next)) != side.sign)
        return bisect(f, std::min(side.factor, next), std::max(side.factor, next));
      side.factor = next;
    }
  return std::nullopt;
}

std::string name_of_inner_link(const Cluster& cluster) {
  const Fabric fabric = cluster.node.fabric;
  if (fabric == Fabric::mesh) return "links between GPUs";
  return joins_by_gpu_links(fabric) ? "NVLink" : "PCIe";
}

std::optional<DecisiveLink> decisive_link(const Cluster& cluster) {
  if (cluster.nodes > 1 && cluster.network)
    return DecisiveLink{cluster.network->name, cluster.network->per_node, true};
  if (cluster.gpus_per_node < 2 || cluster.nodes > 1) return std::nullopt;
  return DecisiveLink{name_of_inner_link(cluster), bus_inside(cluster), false};
}

Cluster with_link(Cluster cluster, double factor) {
  (cluster.nodes > 1 ? cluster.link_factors.between : cluster.link_factors.inside) = factor;
  return cluster;
}

std::optional<Crossover> crossover(const Question& question, const Entrant& one, const Entrant& other) {
  Cluster cluster = question.cluster;
  cluster.link_factors = {};
  const std::optional<DecisiveLink> link = decisive_link(cluster);
  if (!link) return std::nullopt;
  // One context for all speeds: what it keeps does not depend on the cluster.
  const Training of_one = training_of(question, one), of_other = training_of(question, other);
  PlanContext first(question.model, cluster, of_one, question.headroom),
      another(question.model, cluster, of_other, question.headroom);
  PlanContext& second = of_one == of_other ? first : another;
  const auto ahead = [&](double factor) {
    cluster = with_link(cluster, factor);
    return std::log(first.time(one.strategy).tokens_per_second /
                    second.time(other.strategy).tokens_per_second);
  };
  const std::optional<double> factor = nearest_sign_change(ahead, kMostLinkFactor);
  if (!factor) return std::nullopt;
  constexpr double kBeside = 1.01;
  const bool one_above = ahead(*factor * kBeside) > ahead(*factor / kBeside);
  return Crossover{.link = *link,
                   .factor = *factor,
                   .at = link->now * *factor,
                   .below = one_above ? other : one,
                   .above = one_above ? one : other};
}

namespace {

Entrant entrant(const Plan& plan) { return {plan.framework, plan.strategy, plan.name, plan.training}; }

}  // namespace

std::optional<Contest> contest(const Question& question, const std::vector<Plan>& plans) {
  std::vector<const Plan*> fastest;
  for (const Plan& plan : plans) fastest.push_back(&plan);
  if (fastest.size() < 2) return std::nullopt;
  const bool two_fit = std::count_if(plans.begin(), plans.end(), [](const Plan& p) { return p.fits; }) > 1;
  std::stable_sort(fastest.begin(), fastest.end(), [two_fit](const Plan* a, const Plan* b) {
    if (two_fit && a->fits != b->fits) return a->fits;
    return a->time.tokens_per_second > b->time.tokens_per_second;
  });
  const Plan &first = *fastest[0], &second = *fastest[1];
  return Contest{.faster = first.id(),
                 .slower = second.id(),
                 .ratio = first.time.tokens_per_second / second.time.tokens_per_second,
                 .tie = speed_tie(first.framework, second.framework, question.cluster.gpu.name),
                 .link = decisive_link(question.cluster),
                 .crossover = crossover(question, entrant(first), entrant(second))};
}

}  // namespace zplan
