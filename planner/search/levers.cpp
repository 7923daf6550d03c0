#include "planner/search/levers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "models/architectures/liger_types.h"
#include "models/base/error.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan_context.h"
#include "planner/question/framework.h"

namespace zplan {

namespace {

// ---- levers

bool pull_expandable_segments(Question& q, Scope& /*scope*/) {
  return !std::exchange(q.training.expandable_segments, true);
}

/// True if a loss of next tokens makes all logits, and no option gave it another form.
bool makes_logits(const Question& q) {
  const Training& t = q.training;
  return t.objective == Objective::sft && !t.fused_loss && !t.fused_head && t.loss_chunks == 1 &&
         !t.sliced_head && q.space.long_context.tiled_loss == 0 && t.modules.head_and_loss == nullptr;
}

/// True if the layers are those of transformers with PyTorch's kernels, and Liger's could run in their place.
bool takes_liger(const Question& q) {
  const ModuleSet& modules = q.training.modules;
  return liger_patches(q.model.shape.architecture) && !q.model.recorded && !q.model.analogue &&
         !modules.replaces_modules() && modules.kernels == LayerKernels{};
}

/// One argument of a Trainer sets both.
bool pull_liger(Question& q, Scope& /*scope*/) {
  if (!takes_liger(q) || !makes_logits(q)) return false;
  q.training.fused_loss = true;
  q.training.modules.kernels = kLiger.kernels;
  return true;
}

/// The loss alone, where a script would have to call it by itself.
bool pull_fused_loss(Question& q, Scope& /*scope*/) {
  if (takes_liger(q) || !makes_logits(q)) return false;
  q.training.fused_loss = true;
  return true;
}

bool pull_flash_attention(Question& q, Scope& /*scope*/) {
  Training& t = q.training;
  if (t.attention == Attention::flash || !runs_flash(t, q.cluster.gpu)) return false;
  t.attention = Attention::flash;
  return true;
}

/// Ranks divide packed weights only where they are stored as a floating type.
bool pull_packed_storage(Question& q, Scope& /*scope*/) {
  Training& t = q.training;
  if (t.method != Method::qlora || !is_nf4(t.quantization) || t.quant_storage != QuantStorage::uint8 ||
      q.cluster.gpus == 1 || t.precision != Precision::bf16)
    return false;
  t.quant_storage = QuantStorage::bf16;
  return true;
}

/// Divides samples among the GPUs of a node. Steps train as many samples as without.
bool pull_sequence_parallel(Question& q, Scope& scope) {
  if (!q.space.sequence_parallel.empty() || !q.space.context_parallel.empty()) return false;
  std::vector<std::int64_t> degrees{1};
  for (std::int64_t degree = 2; degree <= std::min<std::int64_t>(8, q.cluster.gpus_per_node); degree *= 2)
    if (q.cluster.gpus_per_node % degree == 0) degrees.push_back(degree);
  if (degrees.size() == 1 || !spec(q.training.framework).runs_alst) return false;
  const bool is_pinned = scope.micro_batch_sizes.size() == 1 && scope.accumulations.size() <= 1;
  if (!scope.global_batch_size && is_pinned) {
    scope.global_batch_size = scope.micro_batch_sizes.front() * q.cluster.gpus *
                              (scope.accumulations.empty() ? 1 : scope.accumulations.front());
    scope.accumulations.clear();
  }
  q.space.sequence_parallel = std::move(degrees);
  return true;
}

bool pull_micro_batch(Question& q, Scope& scope) {
  if (scope.global_batch_size || scope.micro_batch_sizes.empty() || generates(q.training)) return false;
  scope.micro_batch_sizes.clear();
  return true;
}

bool pull_eight_bit_states(Question& q, Scope& /*scope*/) {
  if (q.training.optimizer != Optimizer::adamw || q.training.method != Method::full) return false;
  q.training.optimizer = Optimizer::adamw8bit;
  return why_no_bitsandbytes(q.training, q.cluster.gpu).empty();
}

template <Method method>
bool pull_adapters(Question& q, Scope& /*scope*/) {
  if (q.training.method == method || q.training.method == Method::qlora) return false;
  q.training.method = method;
  q.training = with_framework(q.training, q.training.framework);
  return why_no_bitsandbytes(q.training, q.cluster.gpu).empty();
}

constexpr std::array kLevers{
    Lever{"expandable segments", "--expandable-segments", LeverKind::same_result, pull_expandable_segments},
    Lever{"Liger's fused loss and kernels", "--fused-loss --kernels liger", LeverKind::same_result,
          pull_liger},
    Lever{"a fused loss", "--fused-loss", LeverKind::same_result, pull_fused_loss},
    Lever{"FlashAttention-2", "--attention flash", LeverKind::same_result, pull_flash_attention},
    Lever{"packed weights stored in bf16", "--quant-storage bf16", LeverKind::same_result,
          pull_packed_storage},
    Lever{"sequence parallelism", "--sp", LeverKind::relief, pull_sequence_parallel},
    Lever{"a larger micro-batch", "--micro-batch", LeverKind::other_step, pull_micro_batch},
    Lever{"optimizer states in 8 bits", "--optimizer adamw8bit", LeverKind::other_step,
          pull_eight_bit_states},
    Lever{"LoRA", "--method lora", LeverKind::adapters, pull_adapters<Method::lora>},
    Lever{"QLoRA", "--method qlora", LeverKind::adapters, pull_adapters<Method::qlora>}};

using Levers = std::vector<const Lever*>;

// ---- the fastest plan under sets of levers

double speed(const Advised& advised) { return advised.plan().time.tokens_per_second; }

Levers joined(Levers a, const Levers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Levers levers_of(const std::vector<LeverGain>& gains) {
  Levers levers;
  for (const LeverGain& each : gains) levers.push_back(each.lever);
  return levers;
}

/// A question with levers pulled, and what a search of it may vary.
struct Pulled {
  Question question;
  Scope scope;
};

struct Best {
  Advised fastest;
  double most_tokens_per_second{};
  std::optional<Advised> safer{}, own{};
};

class Adviser {
 public:
  Adviser(const Question& question, const OpenLevers& open, const Watch& watch)
      : question_(question), open_(open), watch_(watch) {}

  /// Returns the open levers of a kind that change something, where `pulled` are pulled already.
  [[nodiscard]] Levers that_apply(LeverKind kind, const Levers& pulled = {}) const {
    Levers applied;
    for (const Lever* each : open_.levers)
      if (each->kind == kind && with(joined(pulled, {each}))) applied.push_back(each);
    return applied;
  }

  /// Returns the fastest plan with those of `levers` that are worth it; nothing where it trains fewer tokens
  /// per second than `at_least`.
  [[nodiscard]] std::optional<Best> best(const Levers& levers, double at_least = 0) const {
    const std::optional<Pulled> pulled = with(levers);
    if (!pulled) return std::nullopt;
    std::optional<Fastest> fastest = find_fastest(pulled->question, pulled->scope, watch_, at_least);
    if (!fastest) return std::nullopt;
    const double most = fastest->most_tokens_per_second;
    Best best{.fastest = advised(levers, std::move(fastest->found), *pulled, most),
              .most_tokens_per_second = most};
    if (fastest->own) best.own = advised(levers, *std::move(fastest->own), *pulled, 0);
    if (fastest->safer) best.safer = advised(levers, *std::move(fastest->safer), *pulled, most);
    return best;
  }

 private:
  [[nodiscard]] std::optional<Pulled> with(const Levers& levers) const {
    Pulled pulled{.question = question_, .scope = open_.scope};
    for (const Lever* each : levers)
      if (!each->pull(pulled.question, pulled.scope)) return std::nullopt;
    return pulled;
  }

  /// Returns the plan with the levers that it needs.
  [[nodiscard]] Advised advised(const Levers& levers, Found found, const Pulled& pulled, double most) const {
    Advised made{.gains = {}, .question = pulled.question, .found = std::move(found)};
    for (const Lever* each : levers) made.gains.push_back({.lever = each});
    Question& q = made.question;
    q.training = with_framework(q.training, made.found.name.framework);
    let_go(made, most);
    return made;
  }

  /// Lets go of the levers that are not worth it, the dearest first, and says what each other is worth.
  /// `most`: the most tokens per second that any plan has.
  void let_go(Advised& advised, double most) const;
  [[nodiscard]] std::optional<Plan> outline(const Levers& levers, const Found& like) const;

  const Question& question_;
  const OpenLevers& open_;
  const Watch& watch_;
};

/// Returns the strategy of `like` in outline with other levers; nothing where it is not legal with them.
std::optional<Plan> Adviser::outline(const Levers& levers, const Found& like) const {
  std::optional<Pulled> pulled = with(levers);
  if (!pulled) return std::nullopt;
  Question& q = pulled->question;
  q.training = with_framework(q.training, like.name.framework);
  const Strategy& strategy = like.plan.strategy;
  if (!why_illegal(q.model, q.training, strategy, {q.cluster.gpus, q.cluster.gpus_per_node}).empty())
    return std::nullopt;
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  return context.outline(strategy);
}

void Adviser::let_go(Advised& advised, double most) const {
  const double enough = std::max(speed(advised) * (1 - kWorthPulling), most * (1 - kMostGivenUp));
  bool changed = false;
  for (std::size_t i = advised.gains.size(); i-- > 0;) {
    LeverGain& gain = advised.gains[i];
    if (gain.lever->kind != LeverKind::same_result) continue;
    Levers fewer = levers_of(advised.gains);
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const std::optional<Plan> without = outline(fewer, advised.found);
    if (without && without->fits && without->time.tokens_per_second >= enough) {
      advised.gains.erase(advised.gains.begin() + static_cast<std::ptrdiff_t>(i));
      changed = true;
      i = advised.gains.size();  // without it, levers behind it may gain less or more
      continue;
    }
    gain.without.reset();
    if (without)
      gain.without = {.id = without->id(),
                      .fits = without->fits,
                      .required_low = without->memory().required_low,
                      .tokens_per_second = without->time.tokens_per_second};
  }
  if (!changed) return;
  Question& q = advised.question;
  q = with(levers_of(advised.gains))->question;
  q.training = with_framework(q.training, advised.found.name.framework);
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  advised.found.plan = context.complete(advised.found.plan.strategy);
}

/// Sets the best plan. Where the fastest is risky and a safer one is nearly as fast, that leads.
void set_best(Advice& advice, Best best) {
  advice.best = std::move(best.fastest), advice.safer = std::move(best.safer);
  advice.own = std::move(best.own);
  if (!advice.safer || speed(*advice.safer) < best.most_tokens_per_second * (1 - kWorthRisking)) return;
  advice.best = std::move(advice.safer);
  advice.safer.reset();
}

/// Returns the levers that train something else and may be worth an offer.
Levers offered(const Adviser& adviser, bool pays_for_memory) {
  Levers offers = adviser.that_apply(LeverKind::other_step);
  return pays_for_memory ? joined(offers, adviser.that_apply(LeverKind::adapters)) : offers;
}

}  // namespace

std::span<const Lever> levers() { return kLevers; }

bool improves(const Advised& advised, const Plan* plan) {
  return plan == nullptr || speed(advised) > plan->time.tokens_per_second * (1 + kWorthPulling);
}

Advice advise(const Question& question, const OpenLevers& open, const Watch& watch) {
  const Adviser adviser(question, open, watch);
  Advice advice;
  const Levers same = adviser.that_apply(LeverKind::same_result);
  if (std::optional<Best> best = adviser.best(same)) set_best(advice, *std::move(best));
  const auto pays = [&] { return !advice.best || offloads(advice.best->plan().strategy); };
  if (pays())
    for (const Lever* each : adviser.that_apply(LeverKind::relief))
      if (std::optional<Best> relieved = adviser.best(joined({each}, same));
          relieved && improves(relieved->fastest, advice.best ? &advice.best->plan() : nullptr))
        set_best(advice, *std::move(relieved));
  const double least = advice.best ? speed(*advice.best) * (1 + kWorthOffering) : 0;
  for (const Lever* each : offered(adviser, pays()))
    if (std::optional<Best> other =
            adviser.best(joined({each}, adviser.that_apply(LeverKind::same_result, {each})), least))
      advice.offers.push_back(std::move(other->fastest));
  return advice;
}

}  // namespace zplan
