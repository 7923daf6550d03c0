#include "planner/search/alternative.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/explain/why.h"
#include "planner/plan/plan_context.h"
#include "planner/plan/plan_figures.h"
#include "planner/question/framework.h"
#include "planner/search/candidates.h"
#include "planner/search/findings.h"
#include "planner/search/micro_batch.h"
#include "planner/search/parallel.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

/// The best plan that fits, with all its figures; the others are only outlined.
std::optional<Plan> best_that_fits(const Question& q, const std::vector<Strategy>& strategies) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const std::vector<Plan> plans = mapped_in_parallel(
      strategies, [&](const Strategy& strategy) { return context.outline(sized(q, context, strategy)); });
  const auto best = std::min_element(plans.begin(), plans.end(), better_plan);
  if (best == plans.end() || !best->fits) return std::nullopt;
  Plan plan = context.complete(best->strategy);
  plan.why = why(plan, findings_of(plan, q, context), q.unit);
  return plan;
}

struct Wider {
  Question question;
  std::string options;   ///< what to type beside the strategy: all that was loosened
  bool stores_packed{};  ///< how packed weights are loaded is to be said

  void add(const std::string& option) { options += (options.empty() || option.empty() ? "" : " ") + option; }
};

/// The same, trained by `framework`.
Wider under(Framework framework, Wider wider) {
  if (framework != wider.question.training.framework)
    wider.add(fmt::format("--framework {}", to_name(framework)));
  wider.question.training = with_framework(wider.question.training, framework);
  wider.stores_packed = shards_packed(wider.question.training);
  return wider;
}

/// Packed weights stored so that they can be divided among ranks, by the framework itself or by another.
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

/// Whether a plan would fit if only its weights were saved as they are divided.
bool saving_is_short(const Question& q, const std::vector<Plan>& plans) {
  return std::any_of(plans.begin(), plans.end(), [&](const Plan& plan) {
    const MomentMemory* moment = short_moment(plan, q);
    return moment != nullptr && moment->moment == RunMoment::save_model;
  });
}

/// Questions that loosen what was asked for, least first: how weights are saved, the strategy, then the
/// micro-batch and checkpointing on top, then with those the loss or what is trained.
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

}  // namespace

void add_alternative(const Question& q, Answer& result) {
  for (const Wider& wider : wider_questions(q, result.plans)) {
    result.alternative = best_that_fits(wider.question, candidates(wider.question).legal);
    if (!result.alternative) continue;
    result.alternative_change = wider.options;
    // How packed weights are stored is said where the model is loaded: no launcher has it.
    if (wider.stores_packed)
      for (std::string& note :
           spec(wider.question.training.framework).config_notes(*result.alternative, wider.question))
        result.alternative->why.push_back(std::move(note));
    return;
  }
}

}  // namespace zplan
