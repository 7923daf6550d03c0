#include "planner/search/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "models/base/divisors.h"
#include "planner/explain/why.h"
#include "planner/frameworks/framework.h"
#include "planner/frameworks/token_rules.h"
#include "planner/search/candidates.h"
#include "planner/search/first.h"
#include "planner/search/parallel.h"
#include "planner/search/plan_figures.h"

namespace zplan {

ZeroOptions zero_knobs(const Question& q, int stage) {
  if (q.space.zero) return *q.space.zero;
  ZeroOptions options = zero_options(q.space.buckets, q.model.shape.hidden_size);
  if (divides_groups(stage)) options.overlap_comm = true;
  if (stage == 3 && q.training.optimizer == Optimizer::muon) options.reduce_scatter = false;
  return options;
}

std::vector<int> stages(const Question& q) {
  if (!q.space.zero_stages.empty()) return q.space.zero_stages;
  const std::span<const int> usual = spec(q.training.framework).stages;
  return {usual.begin(), usual.end()};
}

std::vector<std::int64_t> tensor_parallel_degrees(const Question& q) {
  if (!q.space.tensor_parallel.empty()) return q.space.tensor_parallel;
  if (!spec(q.training.framework).splits_layers) return {1};
  std::vector<std::int64_t> degrees{1};
  for (std::int64_t t = 2; t <= std::min<std::int64_t>(8, q.cluster.gpus_per_node); t *= 2)
    if (q.cluster.gpus % t == 0) degrees.push_back(t);
  return degrees;
}

std::vector<ParallelLayout> layouts(const Question& q) {
  const auto degrees = [](const std::vector<std::int64_t>& given) {
    return given.empty() ? std::vector<std::int64_t>{1} : given;
  };
  std::vector<ParallelLayout> all;
  for (const std::int64_t tensor : tensor_parallel_degrees(q))
    for (const std::int64_t sequence : degrees(q.space.sequence_parallel))
      for (const std::int64_t context : degrees(q.space.context_parallel)) {
        const bool both_open = q.space.sequence_parallel.size() > 1 || q.space.context_parallel.size() > 1;
        if (sequence > 1 && context > 1 && both_open) continue;
        for (const std::int64_t expert : degrees(q.space.expert_parallel))
          all.push_back(ParallelLayout{.tensor = tensor,
                                       .sequence = sequence,
                                       .context = context,
                                       .expert = expert,
                                       .data_before_expert = q.space.data_before_expert}
                            .filling(q.cluster.gpus));
      }
  return all;
}

Strategy strategy_of(const Question& q, const ParallelLayout& layout, int stage, const Offload& offload) {
  ExpertParallel experts = q.space.experts;
  experts.enabled = experts.enabled || layout.expert > 1;
  if (!experts.enabled) experts = {};
  return {.zero_stage = stage,
          .layout = layout,
          .offload_optimizer = offload.optimizer,
          .offload_parameters = offload.parameters,
          .checkpointing = q.space.checkpointing,
          .long_context = q.space.long_context,
          .experts = experts,
          .zero = zero_knobs(q, stage)};
}

SearchSpace pinned_to(SearchSpace space, const Strategy& s) {
  space.zero_stages = {s.zero_stage};
  space.tensor_parallel = {s.layout.tensor};
  space.sequence_parallel = {s.layout.sequence};
  space.context_parallel = {s.layout.context};
  space.expert_parallel = {s.layout.expert};
  space.experts = s.experts, space.data_before_expert = s.layout.data_before_expert;
  space.offloads = {{s.offload_optimizer, s.offload_parameters}};
  space.checkpointing = s.checkpointing;
  space.long_context = s.long_context;
  return space;
}

std::vector<Offload> offloads(const Question& q) {
  if (!q.space.offloads.empty()) return q.space.offloads;
  const std::span<const Offload> usual = spec(q.training.framework).offloads;
  return {usual.begin(), usual.end()};
}

namespace {

World world(const Question& q) { return {q.cluster.gpus, q.cluster.gpus_per_node}; }

/// Left open, the search spares the reader combinations that nobody would take: they are not rejected, just
/// not tried.
bool worth_trying(const Question& q, const Strategy& s) {
  const bool open_offload = q.space.offloads.empty();
  if (open_offload && s.offload_parameters != OffloadDevice::none && s.zero_stage < 3) return false;
  if (open_offload && s.offload_optimizer != OffloadDevice::none && s.zero_stage < 2) return false;
  const bool open_degree = q.space.tensor_parallel.empty();
  if (open_degree && s.layout.tensor > 1)
    return why_illegal(q.model, q.training, s, world(q)).empty() && s.zero_stage < 3;
  return true;
}

std::string batch_mismatch(const Question& q, const Strategy& s, std::string_view of) {
  return fmt::format("a global batch of {} is not a multiple of {}{} data-parallel ranks",
                     *q.space.global_batch_size, of, s.layout.data());
}

/// Fills micro-batch and accumulation of `s` from what was given; the reason where the global batch cannot be
/// made so.
std::optional<std::string> set_batch(const Question& q, Strategy& s, std::int64_t micro_batch) {
  const SearchSpace& space = q.space;
  s.micro_batch_size = micro_batch;
  s.gradient_accumulation_steps = space.gradient_accumulation_steps.value_or(1);
  if (!space.global_batch_size) return std::nullopt;
  const std::int64_t global = *space.global_batch_size;
  if (!space.gradient_accumulation_steps) {
    if (global % (micro_batch * s.layout.data()) != 0)
      return batch_mismatch(q, s, fmt::format("micro-batch {} x ", micro_batch));
    s.gradient_accumulation_steps = global / (micro_batch * s.layout.data());
    return std::nullopt;
  }
  const std::int64_t samples = s.gradient_accumulation_steps * s.layout.data();
  if (space.micro_batch_follows) {
    if (global % samples != 0)
      return batch_mismatch(q, s, fmt::format("accumulation {} x ", s.gradient_accumulation_steps));
    s.micro_batch_size = global / samples;
  } else if (micro_batch * samples != global) {
    return fmt::format(
        "a global batch of {} is not micro-batch {} x accumulation {} x {} data-parallel ranks", global,
        micro_batch, s.gradient_accumulation_steps, s.layout.data());
  }
  return std::nullopt;
}

Strategy sized(const Question& q, PlanContext& context, Strategy strategy) {
  if (!q.space.micro_batch_size)
    if (const auto most = largest_micro_batch(q, context, strategy))
      static_cast<void>(set_batch(q, strategy, *most));
  return strategy;
}

std::vector<Plan> plan_all(const Question& q, PlanContext& context, const std::vector<Strategy>& strategies) {
  std::vector<Plan> plans(strategies.size());
  // Stage 3 and offload, which come last, take longest: the others fill in behind them.
  for_each_in_parallel(strategies.size(), [&](std::size_t i) {
    const std::size_t place = strategies.size() - 1 - i;
    Plan& plan = plans[place];
    plan = context.complete(sized(q, context, strategies[place]));
    plan.why = why(plan, q, context);
  });
  std::stable_sort(plans.begin(), plans.end(), better_plan);
  return plans;
}

/// The best plan that fits, with all its figures; the others are only outlined.
std::optional<Plan> best_that_fits(const Question& q, const std::vector<Strategy>& strategies) {
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const std::vector<Plan> plans = mapped_in_parallel(
      strategies, [&](const Strategy& strategy) { return context.outline(sized(q, context, strategy)); });
  const auto best = std::min_element(plans.begin(), plans.end(), better_plan);
  if (best == plans.end() || !best->fits) return std::nullopt;
  Plan plan = context.complete(best->strategy);
  plan.why = why(plan, q, context);
  return plan;
}

struct Wider {
  Question question;
  std::string options;  ///< what to type beside the strategy: all that was loosened
};

/// Packed weights stored so that they can be divided among ranks, by the framework itself or by another.
std::vector<Wider> with_sharded_weights(const Question& q, const Wider& wider) {
  std::vector<Wider> sharded;
  const Training& training = q.training;
  if (training.method != Method::qlora || !is_nf4(training.quantization) || shards_packed(training) ||
      q.cluster.gpus == 1)
    return sharded;
  const auto storage = from_name<QuantStorage>(to_name(training.precision));
  const auto offer = [&](Framework framework, const std::string& option) {
    Wider next = wider;
    next.question.training = with_framework(training, framework);
    next.question.training.quant_storage = storage.value_or(QuantStorage::bf16);
    next.options += fmt::format("{}{}--quant-storage {}", next.options.empty() ? "" : " ", option,
                                to_name(next.question.training.quant_storage));
    sharded.push_back(std::move(next));
  };
  offer(training.framework, "");
  if (const auto other = spec(training.framework).packed_instead)
    offer(*other, fmt::format("--framework {} ", to_name(*other)));
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
  Wider next{q, ""};
  const auto offer = [&](Wider& question, const std::string& option) {
    question.options += (question.options.empty() || option.empty() ? "" : " ") + option;
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
  if (const auto other = spec(q.training.framework).sharded_instead; other && q.cluster.gpus > 1) {
    Wider sharded = next;
    sharded.question.training = with_framework(q.training, *other);
    offer(sharded, fmt::format("--framework {}", to_name(*other)));
  }
  for (Wider& sharded : with_sharded_weights(q, next)) wider.push_back(std::move(sharded));
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
    adapted.question.training = with_framework(adapted.question.training, q.training.framework);
    offer(adapted, fmt::format("--method {}", to_name(method)));
  }
  return wider;
}

void find_alternative(const Question& q, Answer& result) {
  for (const Wider& wider : wider_questions(q, result.plans)) {
    result.alternative = best_that_fits(wider.question, candidates(wider.question).legal);
    if (!result.alternative) continue;
    result.alternative_change = wider.options;
    // How packed weights are stored is said where the model is loaded: no launcher has it.
    const Training& training = wider.question.training;
    if (shards_packed(training) && !shards_packed(q.training))
      for (std::string& note : spec(training.framework).config_notes(*result.alternative, wider.question))
        result.alternative->why.push_back(std::move(note));
    return;
  }
}

void warn(const Question& q, Answer& result) {
  result.warnings = spec(q.training.framework).warnings(q.training);
  if (!result.plans.empty())
    for (std::string& each : warnings_of_tokens(q.training, result.plans.front().strategy))
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

/// What was pinned leaves nothing: each reason once, with a combination that it rules out.
[[noreturn]] void fail_without_candidates(const Candidates& found, Framework framework) {
  std::vector<std::string> reasons, told;
  for (const Rejection& each : found.rejected)
    for (const std::string& reason : each.reasons) {
      if (std::find(told.begin(), told.end(), reason) != told.end()) continue;
      told.push_back(reason);
      reasons.push_back(fmt::format("{}: {}", plan_id(framework, each.strategy), reason));
    }
  const bool batch_alone = std::all_of(told.begin(), told.end(), [](const std::string& reason) {
    return reason.starts_with("a global batch");
  });
  throw InputError(batch_alone ? "--global-batch" : "--zero, --tp, --offload", "no legal combination",
                   fmt::format("{}", fmt::join(reasons, "; ")));
}

}  // namespace

Candidates candidates(const Question& q) {
  stop_if_asked();
  Candidates found;
  for (const ParallelLayout& layout : layouts(q))
    for (const int stage : stages(q))
      for (const Offload offload : offloads(q)) {
        Strategy s = strategy_of(q, layout, stage, offload);
        s.micro_batch_size = q.space.micro_batch_size.value_or(1);
        if (!worth_trying(q, s)) continue;
        std::vector<std::string> reasons = why_illegal(q.model, q.training, s, world(q));
        for (std::string& each : why_not_on(q.cluster, s)) reasons.push_back(std::move(each));
        const auto mismatch = set_batch(q, s, q.space.micro_batch_size.value_or(1));
        // The largest micro-batch is found later, among those that make the global batch.
        const bool found_later =
            !q.space.micro_batch_size && q.space.global_batch_size.value_or(0) % s.layout.data() == 0;
        if (mismatch && !found_later) reasons.push_back(*mismatch);
        if (reasons.empty())
          found.legal.push_back(s);
        else
          found.rejected.push_back({s, std::move(reasons)});
      }
  return found;
}

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

namespace {

/// Of the micro-batches that make the global batch. One micro-step holds other things than two, and two
/// others than more: each of these is tried by itself, and memory grows with the micro-batch among the rest.
template <class Fits>
std::optional<std::int64_t> largest_divisor_that_fits(const Question& q, const Strategy& strategy,
                                                      std::int64_t most, const Fits& fits) {
  constexpr std::int64_t kUnlike = 2;
  const std::int64_t samples = *q.space.global_batch_size / strategy.layout.data();
  std::vector<std::int64_t> sizes;  // largest first
  for (const std::int64_t size : divisors(samples))
    if (size <= most) sizes.insert(sizes.begin(), size);
  auto rest = sizes.begin();
  for (; rest != sizes.end() && samples / *rest <= kUnlike; ++rest)
    if (fits(*rest)) return *rest;
  const std::int64_t found = first_that(sizes.end() - rest, [&](std::int64_t i) { return fits(rest[i]); });
  return found < sizes.end() - rest ? std::optional(rest[found]) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> largest_micro_batch(const Question& q, PlanContext& context,
                                                const Strategy& strategy) {
  const std::int64_t most = std::max<std::int64_t>(1, kMostTokens / q.training.sequence_length);
  const auto fits = [&](std::int64_t micro_batch) {
    Strategy s = strategy;
    return !set_batch(q, s, micro_batch) && context.outline(s).fits;
  };
  if (q.space.global_batch_size) return largest_divisor_that_fits(q, strategy, most, fits);
  const std::int64_t fit = first_that(most, [&](std::int64_t index) { return !fits(index + 1); });
  return fit > 0 ? std::optional(fit) : std::nullopt;
}

Answer answer(const Question& q) {
  Candidates found = candidates(q);
  if (found.legal.empty()) fail_without_candidates(found, q.training.framework);
  Answer result;
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  result.plans = plan_all(q, context, found.legal);
  result.rejected = std::move(found.rejected);
  if (!result.fits()) find_alternative(q, result);
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
  Candidates found = candidates(q);
  if (found.legal.empty()) fail_without_candidates(found, q.training.framework);
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
