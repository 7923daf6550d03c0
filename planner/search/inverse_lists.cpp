// Inverse questions whose values are names: GPUs and models of the catalogues.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "planner/cost/cost_model.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan_context.h"
#include "planner/search/inverse.h"
#include "planner/search/parallel.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

/// The question on another GPU, in the node and network that it usually comes with unless they were given;
/// nothing where those and the GPU do not go together.
std::optional<Question> on_card(const OpenQuestion& open, const Gpu& gpu) {
  Question q = open.question;
  ClusterRequest request = open.cluster;
  request.gpu = gpu.name;
  request.memory.reset();
  request.instance.clear();  // its counts are in open.question
  request.gpus = q.cluster.gpus, request.nodes = q.cluster.nodes;
  try {
    q.cluster = assemble_cluster(request, *open.hardware);
  } catch (const InputError&) {
    return std::nullopt;
  }
  if (!why_no_bitsandbytes(q.training, gpu).empty()) return std::nullopt;
  if (q.training.attention == Attention::flash && !runs_flash(q.training, gpu)) {
    if (open.attention_given) return std::nullopt;
    q.training.attention = Attention::sdpa;
  }
  return q;
}

/// Returns everything in a question that decides how much memory its plans need and have. GPUs that agree in
/// it need not be tried one by one.
auto memory_key(const Question& q) {
  const Cluster& c = q.cluster;
  return std::tuple(c.memory, c.usable_memory, c.host_memory_per_node, c.gpu.compute_capability,
                    c.gpus_per_node, c.gpu.unified_memory, q.training.attention);
}

/// Returns the outlines that fit, of all strategies.
std::vector<Plan> outlines_that_fit(const Question& q, PlanContext& context) {
  std::vector<Plan> outlines;
  for (const Strategy& each : candidates(q).legal) {
    Plan plan = context.outline(each);
    if (plan.fits) outlines.push_back(std::move(plan));
  }
  return outlines;
}

/// Returns the best of them that fits with all its figures.
std::optional<Plan> best_in_full(std::vector<Plan> outlines, PlanContext& context) {
  std::stable_sort(outlines.begin(), outlines.end(), better_plan);
  for (const Plan& each : outlines)
    if (Plan plan = context.complete(each.strategy); plan.fits) return plan;
  return std::nullopt;
}

std::vector<Strategy> strategies_that_fit(const Question& q) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  std::vector<Strategy> fit;
  for (const Plan& each : outlines_that_fit(q, context)) fit.push_back(each.strategy);
  return fit;
}

/// True if any strategy fits. The last ones are tried first: they shard and offload most.
bool something_fits(const Question& q) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const std::vector<Strategy> legal = candidates(q).legal;
  return std::any_of(legal.rbegin(), legal.rend(),
                     [&context](const Strategy& each) { return context.outline(each).fits; });
}

/// The fastest of the strategies, all of which fit by their outlines, that fits with all its figures.
std::optional<Plan> fastest_of(const Question& q, const std::vector<Strategy>& strategies) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  std::vector<Plan> timed;
  for (const Strategy& each : strategies) {
    Plan& plan = timed.emplace_back();
    plan.framework = q.training.framework, plan.strategy = each;
    plan.fits = plan.fits_device = plan.fits_host = true;
    if (strategies.size() > 1) plan.time = context.time(each);
  }
  return best_in_full(std::move(timed), context);
}

/// Returns the GPUs that are worth a try, least memory first.
std::vector<const Gpu*> cards_from(const OpenQuestion& open, Bytes from) {
  constexpr double kTried = 0.9;
  std::vector<const Gpu*> cards;
  for (const Gpu& each : open.hardware->gpus)
    if (each.name != "generic" && ratio(each.memory, from) >= kTried &&
        matrix_peak(each, open.question.training.precision))
      cards.push_back(&each);
  std::stable_sort(cards.begin(), cards.end(),
                   [](const Gpu* a, const Gpu* b) { return a->memory < b->memory; });
  return cards;
}

}  // namespace

std::optional<Plan> fastest_that_fits(const Question& q) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  return best_in_full(outlines_that_fit(q, context), context);
}

std::vector<CardFit> cards_that_fit(const OpenQuestion& open, Bytes from, std::size_t planned) {
  struct Asked {
    const Gpu* card;
    Question question;
    std::size_t alike;  ///< its place among those that differ to memory
  };
  std::vector<Asked> asked;
  std::map<decltype(memory_key(open.question)), std::size_t> places;
  std::vector<std::size_t> first;  // of each place, one that stands for it
  for (const Gpu* card : cards_from(open, from)) {
    std::optional<Question> q = on_card(open, *card);
    if (!q) continue;
    const auto [place, is_new] = places.emplace(memory_key(*q), first.size());
    if (is_new) first.push_back(asked.size());
    asked.push_back({card, *std::move(q), place->second});
  }
  std::vector<Question> unlike;
  for (const std::size_t each : first) unlike.push_back(asked[each].question);
  // Not vector<bool>, whose neighbours two threads cannot write at once. Skipped where all are planned in
  // full.
  const std::vector<char> fitting = planned >= asked.size()
                                        ? std::vector<char>(unlike.size(), 1)
                                        : mapped_in_parallel(unlike, [](const Question& each) {
                                            return static_cast<char>(something_fits(each));
                                          });
  std::erase_if(asked, [&fitting](const Asked& each) { return fitting[each.alike] == 0; });
  const std::size_t shown = std::min(planned, asked.size());
  std::vector<std::vector<Strategy>> strategies(unlike.size());
  std::set<std::size_t> wanted;
  for (std::size_t i = 0; i < shown; ++i) wanted.insert(asked[i].alike);
  const std::vector<std::size_t> listed(wanted.begin(), wanted.end());
  for_each_in_parallel(
      listed.size(), [&](std::size_t i) { strategies[listed[i]] = strategies_that_fit(unlike[listed[i]]); });
  std::vector<std::optional<Plan>> plans(shown);
  for_each_in_parallel(
      shown, [&](std::size_t i) { plans[i] = fastest_of(asked[i].question, strategies[asked[i].alike]); });
  std::vector<CardFit> fits;
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (i >= shown || plans[i])
      fits.push_back({asked[i].card->name, asked[i].card->memory,
                      i < shown ? std::move(plans[i]) : std::optional<Plan>()});
  return fits;
}

std::vector<ModelFit> largest_models(const OpenQuestion& open, std::vector<Model> models, std::size_t most) {
  std::stable_sort(models.begin(), models.end(),
                   [](const Model& a, const Model& b) { return parameters(a) > parameters(b); });
  constexpr std::size_t kAtOnce = 8;
  std::vector<ModelFit> fits;
  for (std::size_t at = 0; at < models.size() && fits.size() < most; at += kAtOnce) {
    const std::size_t end = std::min(at + kAtOnce, models.size());
    std::vector<std::optional<Plan>> plans(end - at);
    for_each_in_parallel(end - at, [&](std::size_t i) {
      Question q = open.question;
      q.model = as_trained(models[at + i], q.model, q.training.objective);
      plans[i] = fastest_that_fits(q);
    });
    for (std::size_t i = at; i < end; ++i)
      if (plans[i - at] && fits.size() < most)
        fits.push_back({models[i].name, parameters(models[i]), std::move(*plans[i - at])});
  }
  return fits;
}

}  // namespace zplan
