// Inverse questions whose values are names: GPUs and models of the catalogues.

#include <algorithm>

#include "planner/cost/cost_model.h"
#include "planner/search/inverse.h"
#include "planner/search/parallel.h"

namespace zplan {

namespace {

/// The question on another GPU, in the node and network that it usually comes with unless they were given;
/// nothing where those and the GPU do not go together.
std::optional<Question> on_card(const OpenQuestion& open, const Gpu& gpu) {
  constexpr int kFlash = 8;  // the generation from which on flash attention's kernels run
  Question q = open.question;
  ClusterRequest request = open.cluster;
  request.gpu = gpu.name;
  request.memory.reset();
  try {
    q.cluster = assemble_cluster(request, *open.hardware);
  } catch (const InputError&) {
    return std::nullopt;
  }
  if (q.training.attention == Attention::flash && capability_major(gpu.compute_capability) < kFlash) {
    if (open.attention_given) return std::nullopt;
    q.training.attention = Attention::sdpa;
  }
  return q;
}

}  // namespace

std::optional<Plan> fastest_that_fits(const Question& q) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  std::vector<Plan> outlines;
  for (const Strategy& each : candidates(q).legal) {
    Plan plan = context.outline(each);
    if (plan.fits) outlines.push_back(std::move(plan));
  }
  std::stable_sort(outlines.begin(), outlines.end(), better_plan);
  for (const Plan& each : outlines)
    if (Plan plan = context.complete(each.strategy); plan.fits) return plan;
  return std::nullopt;
}

std::vector<CardFit> cards_that_fit(const OpenQuestion& open, Bytes from) {
  constexpr double kTried = 0.9;
  std::vector<const Gpu*> cards;
  for (const Gpu& each : open.hardware->gpus)
    if (each.name != "generic" && ratio(each.memory, from) >= kTried &&
        matrix_peak(each, open.question.training.precision))
      cards.push_back(&each);
  std::stable_sort(cards.begin(), cards.end(),
                   [](const Gpu* a, const Gpu* b) { return a->memory < b->memory; });
  std::vector<std::optional<Plan>> plans = mapped_in_parallel(cards, [&open](const Gpu* each) {
    const std::optional<Question> q = on_card(open, *each);
    return q ? fastest_that_fits(*q) : std::nullopt;
  });
  std::vector<CardFit> fits;
  for (std::size_t i = 0; i < cards.size(); ++i)
    if (plans[i]) fits.push_back({cards[i]->name, cards[i]->memory, std::move(*plans[i])});
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
      q.model = models[at + i];
      plans[i] = fastest_that_fits(q);
    });
    for (std::size_t i = at; i < end; ++i)
      if (plans[i - at] && fits.size() < most)
        fits.push_back({models[i].name, parameters(models[i]), std::move(*plans[i - at])});
  }
  return fits;
}

}  // namespace zplan
