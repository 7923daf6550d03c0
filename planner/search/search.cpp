#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "planner/explain/why.h"
#include "planner/model_trace/recorded_tape.h"
#include "planner/plan/plan_context.h"
#include "planner/plan/plan_figures.h"
#include "planner/question/framework.h"
#include "planner/search/candidates.h"
#include "planner/search/findings.h"
#include "planner/search/parallel.h"

namespace zplan {

namespace {

void explain(const Question& q, PlanContext& context, Plan& plan) {
  plan.why = why(plan, findings_of(plan, q, context), q.unit);
}

enum class Depth : std::uint8_t { live_memory, all_figures };

/// Returns the plans of all strategies, in their order.
std::vector<Plan> plan_all(const Question& q, PlanContext& context, const std::vector<Strategy>& strategies,
                           Depth depth) {
  std::vector<Plan> plans(strategies.size());
  // Stage 3 and offload, which are last in order, run longest: start them first.
  for_each_in_parallel(strategies.size(), [&](std::size_t i) {
    const std::size_t place = strategies.size() - 1 - i;
    const Strategy strategy = sized(q, context, strategies[place]);
    Plan& plan = plans[place];
    plan = depth == Depth::live_memory ? context.outline(strategy) : context.complete(strategy);
    if (depth == Depth::all_figures) explain(q, context, plan);
  });
  return plans;
}

/// Wider is a question that loosens the original one.
struct Wider {
  Question question;
  std::string options;   ///< what to type beside the strategy: all that was loosened
  bool stores_packed{};  ///< how packed weights are loaded is to be said

  void add(const std::string& option) { options += (options.empty() || option.empty() ? "" : " ") + option; }
};

/// Returns the question under `framework`.
Wider under(Framework framework, Wider wider) {
  if (framework != wider.question.training.framework)
    wider.add(fmt::format("--framework {}", to_name(framework)));
  wider.question.training = with_framework(wider.question.training, framework);
  wider.stores_packed = shards_packed(wider.question.training);
  return wider;
}

/// Returns questions that store packed weights so that ranks can divide them, under this framework or
/// another.
std::vector<Wider> with_sharded_weights(const Wider& wider) {
  const Training& training = wider.question.training;
  if (training.method != Method::qlora || !is_nf4(training.quantization) || shards_packed(training) ||
      wider.question.cluster.gpus == 1)
    return {};
  std::vector<Wider> sharded{under(training.framework, wider)};
  if (const auto other = spec(training.framework).packed_instead) sharded.push_back(under(*other, wider));
  const QuantStorage storage =
      from_name<QuantStorage>(to_name(training.precision)).value_or(QuantStorage::bf16);
  for (Wider& each : sharded) {
    each.question.training.quant_storage = storage;
    each.add(fmt::format("--quant-storage {}", to_name(storage)));
    each.stores_packed = true;
  }
  return sharded;
}

/// True if some plan only misses because weights are saved whole.
bool saving_is_short(const Question& q, const std::vector<Plan>& plans) {
  return std::any_of(plans.begin(), plans.end(), [&](const Plan& plan) {
    const MomentMemory* moment = short_moment(plan, q);
    return moment != nullptr && moment->moment == RunMoment::save_model;
  });
}

/// Returns questions that loosen the original one, least first: how weights are saved, the strategy, then the
/// micro-batch and checkpointing on top, then with those the loss or the method.
std::vector<Wider> wider_questions(const Question& q, const std::vector<Plan>& plans) {
  std::vector<Wider> wider;
  Wider next{.question = q, .options = "", .stores_packed = false};
  const auto offer = [&](Wider& question, const std::string& option) {
    question.add(option);
    wider.push_back(question);
  };
  if (q.training.beside.save != SavedModel::sharded && saving_is_short(q, plans)) {
    Wider divided = next;
    divided.question.training.beside.save = SavedModel::sharded;
    offer(divided, "--save sharded");
  }
  SearchSpace& space = next.question.space;
  space.zero_stages.clear(), space.tensor_parallel.clear(), space.offloads.clear();
  if (!(space == q.space)) offer(next, "");
  if (space.micro_batch_size.value_or(1) > 1 && !space.gradient_accumulation_steps) {
    space.micro_batch_size.reset();
    offer(next, "--micro-batch max");
  }
  if (space.checkpointing != Checkpointing::full) {
    space.checkpointing = Checkpointing::full;
    offer(next, "--checkpointing full");
  }
  if (const auto other = spec(q.training.framework).sharded_instead; other && q.cluster.gpus > 1)
    wider.push_back(under(*other, next));
  for (Wider& sharded : with_sharded_weights(next)) wider.push_back(std::move(sharded));
  // From here on one or the other, not each on top of the one before.
  if (!q.training.fused_loss && !q.training.fused_head) {
    Wider fused = next;
    fused.question.training.fused_loss = true;
    offer(fused, "--fused-loss");
  }
  for (const Method method : {Method::lora, Method::qlora}) {
    if (q.training.method == method || q.training.method == Method::qlora) continue;
    Wider adapted = next;
    adapted.question.training.method = method;
    adapted = under(q.training.framework, std::move(adapted));
    offer(adapted, fmt::format("--method {}", to_name(method)));
  }
  return wider;
}

/// Returns the best plan that fits, with all its figures; the others are only outlined.
std::optional<Plan> best_that_fits(const Question& q) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const std::vector<Plan> plans = plan_all(q, context, candidates(q).legal, Depth::live_memory);
  const auto best = std::min_element(plans.begin(), plans.end(), better_plan);
  if (best == plans.end() || !best->fits) return std::nullopt;
  Plan plan = context.complete(best->strategy);
  explain(q, context, plan);
  return plan;
}

/// Fills in the alternative of an answer in which nothing fits: the best plan of the least wider question
/// that has one.
void add_alternative(const Question& q, Answer& result) {
  for (const Wider& wider : wider_questions(q, result.plans)) {
    result.alternative = best_that_fits(wider.question);
    if (!result.alternative) continue;
    result.alternative_change = wider.options;
    // The script that loads the model says how packed weights are stored: no launcher has an option for it.
    if (wider.stores_packed)
      for (std::string& note :
           spec(wider.question.training.framework).config_notes(*result.alternative, wider.question))
        result.alternative->why.push_back(std::move(note));
    return;
  }
}

void warn(const Question& q, Answer& result) {
  const FrameworkSpec& framework = spec(q.training.framework);
  result.warnings = framework.warnings(q.training);
  if (framework.strategy_warnings != nullptr && !result.plans.empty())
    for (std::string& each : framework.strategy_warnings(q.training, result.plans.front().strategy))
      result.warnings.push_back(std::move(each));
  const bool by_analogy = result.plans.empty()
                              ? q.model.analogue && !q.model.recorded
                              : is_by_analogy(q.model, q.training, result.plans.front().strategy);
  if (by_analogy)
    result.warnings.insert(
        result.warnings.begin(),
        fmt::format("{} was not recorded{}: its micro-step is planned by analogy with {}, {}; "
                    "\"zplan trace\" of zplan's Python package makes it exact",
                    q.model.name.empty() ? q.model.shape.architecture : q.model.name,
                    q.model.recorded ? " in this way to train" : "", q.model.analogue->shape.architecture,
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
      best != nullptr && best->memory().required_high > cluster.usable_memory)
    result.warnings.push_back(fmt::format(
        "{} fits, but not with memory to spare: PyTorch would reserve {} where it may, more than the {} of "
        "the GPU, so it will give cached blocks back and ask again, which takes time",
        best->id(), format_bytes(best->memory().required_high, q.unit),
        format_bytes(cluster.usable_memory, q.unit)));
  if (!matrix_peak(q.cluster.gpu, q.training.precision))
    result.warnings.push_back(fmt::format("{} has no hardware for {}: times assume its fp32 rate",
                                          q.cluster.gpu.name, to_name(q.training.precision)));
}

}  // namespace

bool better_plan(const Plan& a, const Plan& b) {
  if (a.fits != b.fits) return a.fits;
  // A plan that misses on the host alone is nearer than one that misses on the device.
  const auto key = [](const Plan& p) {
    const auto need = static_cast<double>(p.memory().required.value);
    return std::tuple(!p.fits_device, p.fits ? -p.time.tokens_per_second : need, p.strategy.zero_stage,
                      p.strategy.layout.of_model());
  };
  return key(a) < key(b);
}

Answer answer(const Question& q) {
  Candidates found = legal_candidates(q);
  Answer result;
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  result.plans = plan_all(q, context, found.legal, Depth::all_figures);
  std::stable_sort(result.plans.begin(), result.plans.end(), better_plan);
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
  // The guessed plan runs longest: start it first, then move it back, so that equal plans keep their order.
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
