#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "planner/explain/why.h"
#include "planner/plan/plan_context.h"
#include "planner/question/framework.h"
#include "planner/search/alternative.h"
#include "planner/search/candidates.h"
#include "planner/search/findings.h"
#include "planner/search/micro_batch.h"
#include "planner/search/parallel.h"

namespace zplan {

namespace {

std::vector<Plan> plan_all(const Question& q, PlanContext& context, const std::vector<Strategy>& strategies) {
  std::vector<Plan> plans(strategies.size());
  // Stage 3 and offload, which come last, take longest: the others fill in behind them.
  for_each_in_parallel(strategies.size(), [&](std::size_t i) {
    const std::size_t place = strategies.size() - 1 - i;
    Plan& plan = plans[place];
    plan = context.complete(sized(q, context, strategies[place]));
    plan.why = why(plan, findings_of(plan, q, context), q.unit);
  });
  std::stable_sort(plans.begin(), plans.end(), better_plan);
  return plans;
}

void warn(const Question& q, Answer& result) {
  const FrameworkSpec& framework = spec(q.training.framework);
  result.warnings = framework.warnings(q.training);
  if (framework.strategy_warnings != nullptr && !result.plans.empty())
    for (std::string& each : framework.strategy_warnings(q.training, result.plans.front().strategy))
      result.warnings.push_back(std::move(each));
  if (q.model.analogue)
    result.warnings.insert(
        result.warnings.begin(),
        fmt::format("{} was not recorded: its micro-step is planned by analogy with {}, {}; "
                    "zplan trace would make it exact",
                    q.model.name.empty() ? q.model.shape.architecture : q.model.name,
                    q.model.analogue->shape.architecture,
                    q.model.inventory == q.model.analogue->inventory ? "its parameters too"
                                                                     : "its parameters are exact"));
  else if (!result.plans.empty() && !result.plans.front().measured_activations)
    result.warnings.push_back(
        fmt::format("the activations of {} are derived by analogy with measured architectures, not measured",
                    q.model.shape.architecture));
  if (has_tower(q.model))
    result.warnings.emplace_back(
        "planned for text alone: no gradient reaches the tower for images, and what images would take in it "
        "is not counted");
  if (q.model.stored_as == to_name(Quantization::mxfp4) && q.training.method != Method::qlora)
    result.warnings.push_back(
        fmt::format("{} is stored in MXFP4, which does not train: it is planned in 16 bits, as "
                    "quantization_config=Mxfp4Config(dequantize=True) loads it",
                    q.model.name.empty() ? q.model.shape.architecture : q.model.name));
  const ModelShape& shape = q.model.shape;
  if (shape.max_positions > 0 && q.training.sequence_length > shape.max_positions)
    result.warnings.push_back(fmt::format("{} was made for sequences of up to {} tokens, not {}",
                                          q.model.name, shape.max_positions, q.training.sequence_length));
  const Cluster& cluster = q.cluster;
  if (cluster.nodes == 1 && cluster.node.usual_gpus > 0 && cluster.gpus > cluster.node.usual_gpus)
    result.warnings.push_back(fmt::format(
        "{} GPUs in one node, which usually holds {}: --nodes {} spreads them over a network", cluster.gpus,
        cluster.node.usual_gpus, (cluster.gpus + cluster.node.usual_gpus - 1) / cluster.node.usual_gpus));
  if (const Plan* best = result.recommended();
      best != nullptr && best->memory.required_high > cluster.usable_memory)
    result.warnings.push_back(fmt::format(
        "{} fits, but not with memory to spare: PyTorch would reserve {} where it may, more than the {} of "
        "the GPU, so it will give cached blocks back and ask again, which takes time",
        best->id(), format_bytes(best->memory.required_high, q.unit),
        format_bytes(cluster.usable_memory, q.unit)));
  if (!matrix_peak(q.cluster.gpu, q.training.precision))
    result.warnings.push_back(fmt::format("{} has no hardware for {}: times assume its fp32 rate",
                                          q.cluster.gpu.name, to_name(q.training.precision)));
}

}  // namespace

bool better_plan(const Plan& a, const Plan& b) {
  if (a.fits != b.fits) return a.fits;
  // What fits the device and misses on the host alone is nearer than what misses on the device.
  const auto key = [](const Plan& p) {
    const auto need = static_cast<double>(p.memory.required.value);
    return std::tuple(!p.fits_device, p.fits ? -p.time.tokens_per_second : need, p.strategy.zero_stage,
                      p.strategy.layout.of_model());
  };
  return key(a) < key(b);
}

Answer answer(const Question& q) {
  Candidates found = legal_candidates(q);
  Answer result;
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  result.plans = plan_all(q, context, found.legal);
  result.rejected = std::move(found.rejected);
  if (!result.fits()) add_alternative(q, result);
  warn(q, result);
  return result;
}

std::optional<Plan> plan_called(const Question& q, std::string_view id) {
  const std::vector<Strategy> legal = candidates(q).legal;
  const auto at = std::find_if(legal.begin(), legal.end(), [&](const Strategy& strategy) {
    return plan_id(q.training.framework, strategy) == id;
  });
  if (at == legal.end()) return std::nullopt;
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  return context.complete(sized(q, context, *at));
}

Answer draft_answer(const Question& q, std::string_view wanted, std::string_view likely) {
  Candidates found = legal_candidates(q);
  Answer result;
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  std::vector<Plan>& plans = result.plans;
  const std::string_view guess = wanted.empty() ? likely : wanted;
  const auto is_guess = [&](const Strategy& strategy) {
    return plan_id(q.training.framework, strategy) == guess;
  };
  // What takes longest begins first, and goes back to its place: equal plans keep their order.
  const auto guessed = std::find_if(found.legal.begin(), found.legal.end(), is_guess);
  const auto place = guessed - found.legal.begin();
  if (guessed != found.legal.end()) std::rotate(found.legal.begin(), guessed, guessed + 1);
  plans = mapped_in_parallel(found.legal, [&](const Strategy& strategy) {
    const Strategy whole = sized(q, context, strategy);
    return is_guess(strategy) ? context.complete(whole) : context.outline(whole);
  });
  if (place < std::ssize(plans)) std::rotate(plans.begin(), plans.begin() + 1, plans.begin() + place + 1);
  std::stable_sort(plans.begin(), plans.end(), better_plan);
  auto at = std::find_if(plans.begin(), plans.end(), [&](const Plan& plan) { return plan.id() == wanted; });
  if (at == plans.end()) at = plans.begin();
  if (at->id() != guess) *at = context.complete(at->strategy);
  result.rejected = std::move(found.rejected);
  warn(q, result);
  return result;
}

}  // namespace zplan
