#include "planner/search/oom_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include "models/base/format.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/model_trace/play.h"
#include "planner/question/framework.h"
#include "planner/search/parallel.h"
#include "planner/search/scale.h"
#include "planner/simulation/caching_allocator.h"

namespace zplan {

namespace {

// ---- how near a simulated run comes to a message

/// Distances, as shares of what the allocator had. A simulated run differs from the real one by about 0.2 %.
constexpr double kExact = 0.01, kNear = 0.04, kFar = 0.5;
/// Of a run that asks for blocks of another size where it ends, and of one that ends nowhere.
constexpr double kOtherBlock = 0.03, kCompletes = 0.02;
/// Added for each difference from the plan, and for one whose size was chosen by the block that was asked
/// for.
constexpr double kDifference = 0.004, kSolved = 0.006, kOddLength = 0.004;

/// A run's figures beside those of the message.
struct Comparison {
  double distance{kFar};
  std::optional<BlockRequest> block;  ///< of the run, at its nearest
  bool same_block{};                  ///< PyTorch would print the same size
};

/// The figures of a message that runs are compared with.
struct Observed {
  const OomMessage& message;
  Bytes pool, held;

  [[nodiscard]] bool prints_as(Bytes size) const {
    return torch_size(asked_of_device(size)) == message.asked_text;
  }
  [[nodiscard]] double off(Bytes at) const {
    return std::abs(number_of_bytes(at) - number_of_bytes(held)) / number_of_bytes(pool);
  }
  /// Segments of 2 and 20 MiB are asked for all through a run.
  [[nodiscard]] bool tells_blocks_apart() const { return message.asked > kMiB * 20; }
};

void take_nearer(Comparison& best, const Observed& seen, const BlockRequest& each, double penalty) {
  const double distance = seen.off(each.held) + penalty;
  if (distance < best.distance) best = {distance, each, seen.prints_as(each.size)};
}

/// Returns how near the run of a plan comes: where it ends on such a GPU, or anywhere that it asks for such a
/// block.
Comparison compared(const Question& q, const Strategy& s, const Observed& seen) {
  const RankRun run = run_of(q, s, seen.message);
  std::vector<BlockRequest> requests;
  RunInputs inputs = run.inputs();
  inputs.requests = &requests;
  inputs.outside = seen.message.capacity.value_or(q.cluster.usable_memory) - seen.pool;
  Comparison best;
  const RunResult pressed = simulate_within(inputs, seen.pool);
  if (!pressed.completed && !requests.empty()) {
    const BlockRequest& end = requests.back();
    const double ratio = std::abs(std::log(number_of_bytes(asked_of_device(end.size)) /
                                           std::max(1.0, number_of_bytes(seen.message.asked))));
    take_nearer(best, seen, end, seen.prints_as(end.size) ? 0 : kOtherBlock * (1 + std::min(ratio, 3.0)));
  }
  if (!seen.tells_blocks_apart()) return best;
  // A block that did not fit by a hair in the one fits in the other: any place that asks for as much counts.
  requests.clear();
  static_cast<void>(simulate(inputs));
  for (const BlockRequest& each : requests)
    if (seen.prints_as(each.size)) take_nearer(best, seen, each, kCompletes);
  return best;
}

// ---- evaluation

/// The blocks of a forward without gradients, in order, with what is live beside each.
class ForwardBlocks {
 public:
  explicit ForwardBlocks(const Tape& tape)
      : layout_(tape), sizes_(static_cast<std::size_t>(layout_.blocks())) {
    TapePlayer<ForwardBlocks>(tape, layout_, *this).forward();
  }
  [[nodiscard]] const std::vector<std::pair<Bytes, Bytes>>& blocks() const { return blocks_; }

  void section(int, bool) {}
  void allocate(std::int32_t block, Term, Bytes size) {
    blocks_.emplace_back(size, live_);
    sizes_[static_cast<std::size_t>(block)] = size, live_ += size;
  }
  void release(std::int32_t block) {
    live_ -= std::exchange(sizes_[static_cast<std::size_t>(block)], Bytes{});
  }
  void gradient(int, std::int32_t, std::int32_t) {}
  void part_of_gradient(int, std::int32_t, std::int32_t) {}
  void module(const Event&, int) {}
  void workspace(std::int32_t) {}
  void phase(Phase) {}

 private:
  TapeLayout layout_;
  std::vector<Bytes> sizes_;
  std::vector<std::pair<Bytes, Bytes>> blocks_;  ///< size, live before it
  Bytes live_;
};

/// An evaluation that comes near the message.
struct Evaluation {
  std::int64_t samples{};
  std::int64_t kept{};  ///< batches of logits
  Comparison nearest;
};

/// Compares a batch of evaluation, with `kept` batches of logits beside it or joined to one tensor.
void compare_batch(const Observed& seen, Bytes held, Bytes logits, const ForwardBlocks& forward,
                   Evaluation& best, std::int64_t samples) {
  constexpr std::int64_t kMostKept = 256;
  const auto take = [&](Bytes size, Bytes at, std::int64_t kept, double penalty) {
    if (!seen.prints_as(size)) return;
    const double distance = seen.off(at) + penalty;
    if (distance >= best.nearest.distance) return;
    best = {
        samples, kept, {distance, BlockRequest{Term::logits, size, at, Phase::forward, "evaluation"}, true}};
  };
  for (std::int64_t kept = 0; kept <= kMostKept; ++kept) {
    const Bytes beside = held + logits * kept;
    if (beside > seen.pool + logits) break;
    for (const auto& [size, live] : forward.blocks()) take(size, beside + live, kept, kept > 0 ? kSolved : 0);
    if (kept > 0) take(logits * (kept + 1), beside + logits, kept, 0);
  }
}

/// Returns the evaluation that comes nearest: of the batches that trainers have by default, and of others.
Evaluation nearest_evaluation(const Question& q, const Strategy& s, const Observed& seen) {
  Evaluation best;
  if (!seen.tells_blocks_apart()) return best;
  const RankRun run = run_of(q, s, seen.message);
  const RunResult whole = simulate(run.inputs());
  Training training = q.training;
  const bool wide = training.precision == Precision::fp32 || !spec(training.framework).casts_model;
  std::set<std::int64_t> sizes{8, s.micro_batch_size, 1, 2, 4, 16, 32, 64};
  if (training.beside.eval_batch > 0) sizes = {training.beside.eval_batch};
  for (const std::int64_t samples : sizes) {
    Strategy evaluated = s;
    evaluated.micro_batch_size = samples;
    if (samples * training.sequence_length > kMostTokens) continue;
    const ForwardBlocks forward(record_evaluation(q.model, training, evaluated));
    const Elements numbers(samples * training.sequence_length * q.model.shape.vocabulary_size *
                           s.layout.data_ranks());
    for (const Bytes number : {Bytes(2), Bytes(4)})
      if (number == Bytes(4) || !wide || training.master_weights)
        compare_batch(seen, whole.held, numbers * number, forward, best, samples);
  }
  return best;
}

// ---- differences from the plan

/// A way in which what ran differs from what is planned, applied to a question that is pinned to one
/// strategy.
struct Variant {
  OomCause cause{OomCause::planned};
  std::string what, check, options;
  double penalty{kDifference};
  std::function<void(Question&)> apply{[](Question&) {}};
};

std::vector<Variant> joined(const std::vector<Variant>& some, const std::vector<Variant>& others) {
  std::vector<Variant> pairs;
  for (const Variant& a : some)
    for (const Variant& b : others)
      pairs.push_back({.cause = b.cause,
                       .what = b.what + ", and " + a.what,
                       .check = b.check + "; " + a.check,
                       .options = a.options + " " + b.options,
                       .penalty = a.penalty + b.penalty + kDifference,
                       .apply = [a, b](Question& q) { a.apply(q), b.apply(q); }});
  return pairs;
}

/// True for blocks that grow with the tokens of a micro-batch.
bool follows_tokens(Term term) {
  return term == Term::logits || term == Term::loss_temporaries || term == Term::saved_activations ||
         term == Term::layer_working_set;
}

/// The sizes of blocks that grow with tokens, the largest first.
std::vector<Bytes> token_blocks(const Question& q, const Strategy& s, const Observed& seen) {
  std::vector<BlockRequest> requests;
  const RankRun run = run_of(q, s, seen.message);
  RunInputs inputs = run.inputs();
  inputs.requests = &requests;
  static_cast<void>(simulate(inputs));
  std::set<Bytes, std::greater<>> sizes;
  for (const BlockRequest& each : requests)
    if (follows_tokens(each.term) && each.size > kMiB) sizes.insert(each.size);
  return {sizes.begin(), sizes.end()};
}

/// The roundest number from `low` to `high` of which `holds` is true; 0 where none is.
template <class Holds>
std::int64_t roundest(double low, double high, const Holds& holds) {
  for (std::int64_t step = 1 << 20; step >= 1; step /= 2) {
    auto multiple =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(low / static_cast<double>(step)))) *
        step;
    for (int tried = 0; tried < 8 && static_cast<double>(multiple) <= high; ++tried, multiple += step)
      if (holds(multiple)) return multiple;
  }
  return 0;
}

Variant of_length(std::int64_t length, std::int64_t planned) {
  return {.cause = OomCause::length,
          .what = fmt::format("samples of {} tokens, not {}", length, planned),
          .check = fmt::format("cut samples (max_length, truncation) at {} tokens, or plan --seq {}", planned,
                               length),
          .options = fmt::format("--seq {}", length),
          .penalty = kDifference + kSolved + (length % 128 == 0 ? 0 : kOddLength),
          .apply = [length](Question& q) { q.training.sequence_length = length; }};
}

Variant of_batch(std::int64_t batch, std::int64_t planned) {
  return {.cause = OomCause::batch,
          .what = fmt::format("micro-batches of {} samples, not {}", batch, planned),
          .check = fmt::format("per_device_train_batch_size (train_micro_batch_size_per_gpu) {}, and more of "
                               "gradient_accumulation_steps",
                               planned),
          .options = fmt::format("--micro-batch {}", batch),
          .penalty = kDifference + kSolved,
          .apply = [batch](Question& q) {
            q.space.micro_batch_size = batch, q.space.micro_batch_follows = false;
            q.space.global_batch_size.reset();
          }};
}

/// Returns lengths and batches of which some block is as large as the message says. A printed size has two
/// decimals, and a large one is a multiple of 2 MiB.
std::vector<Variant> sized_by_block(const Question& q, const Strategy& s, const Observed& seen) {
  constexpr std::size_t kMostBlocks = 24;
  constexpr std::int64_t kMostTimes = 64;
  std::vector<Variant> variants;
  if (!seen.tells_blocks_apart()) return variants;
  const std::int64_t planned = q.training.sequence_length, batch = s.micro_batch_size;
  const double asked = number_of_bytes(seen.message.asked);
  const double unit = number_of_bytes(seen.message.asked > kGiB ? kGiB : kMiB);
  const double low = asked - 0.005 * unit - number_of_bytes(kMiB * 2), high = asked + 0.005 * unit;
  std::set<std::int64_t> lengths, batches;
  std::vector<Bytes> blocks = token_blocks(q, s, seen);
  if (blocks.size() > kMostBlocks) blocks.resize(kMostBlocks);
  for (const Bytes block : blocks) {
    const double from = low / number_of_bytes(block), to = high / number_of_bytes(block);
    if (to < 1 || from > static_cast<double>(kMostTimes)) continue;
    const auto scaled = [&](std::int64_t to_value, std::int64_t of_value) {
      return seen.prints_as(Bytes(std::llround(number_of_bytes(block) * static_cast<double>(to_value) /
                                               static_cast<double>(of_value))));
    };
    const auto tokens = static_cast<double>(planned), samples = static_cast<double>(batch);
    const std::int64_t length =
        roundest(from * tokens, to * tokens, [&](std::int64_t value) { return scaled(value, planned); });
    if (length > planned && length * batch <= kMostTokens) lengths.insert(length);
    const std::int64_t size =
        roundest(from * samples, to * samples, [&](std::int64_t value) { return scaled(value, batch); });
    if (size > batch && size * planned <= kMostTokens) batches.insert(size);
  }
  for (const std::int64_t each : lengths) variants.push_back(of_length(each, planned));
  for (const std::int64_t each : batches) variants.push_back(of_batch(each, batch));
  return variants;
}

/// Leaves every GPU with all that stages would divide.
void undivide(Question& q, int stage) {
  q.space.zero_stages = {stage};
  q.space.zero.reset();
  q.space.offloads = {Offload{}};
}

void add_stages(const Question& q, const Strategy& s, std::vector<Variant>& variants) {
  const FrameworkSpec& framework = spec(q.training.framework);
  const std::string asked = framework.makes_shards ? "FSDP2" : fmt::format("ZeRO-{}", s.zero_stage);
  const std::string look = framework.makes_shards ? "accelerate's fsdp_config reaches the process "
                                                    "(accelerate launch --config_file), or fully_shard runs "
                                                    "before the optimizer is made"
                                                  : "the ds_config reaches the trainer (deepspeed=..., "
                                                    "--deepspeed) and the script is started by deepspeed, "
                                                    "torchrun or accelerate launch";
  const auto add = [&](std::string what, std::string options, std::function<void(Question&)> apply) {
    variants.push_back({.cause = OomCause::zero_off,
                        .what = std::move(what),
                        .check = fmt::format("{} is not active: check that {}", asked, look),
                        .options = std::move(options),
                        .apply = std::move(apply)});
  };
  if (!framework.makes_shards && s.zero_stage == 0) return;
  if (!framework.makes_shards)
    for (int stage = s.zero_stage - 1; stage >= 0; --stage)
      add(stage == 0 ? fmt::format("no ZeRO, where ZeRO-{} was meant", s.zero_stage)
                     : fmt::format("ZeRO-{}, not ZeRO-{}", stage, s.zero_stage),
          fmt::format("--zero {}", stage), [stage](Question& each) { undivide(each, stage); });
  if (q.cluster.gpus > 1)
    add(fmt::format("one process, which shares with no other, not {} GPUs", q.cluster.gpus), "--gpus 1",
        [](Question& each) {
          each.cluster.gpus = each.cluster.nodes = each.cluster.gpus_per_node = 1;
          each.space.tensor_parallel = each.space.sequence_parallel = each.space.context_parallel = {1};
          each.space.replicas = {1};
        });
  for (const bool masters : {true, false})
    for (const bool alone : {true, false})
      add(fmt::format("plain PyTorch{} over {} weights, which shards nothing",
                      alone ? " in one process" : " (DDP)", masters ? "fp32" : "16-bit"),
          fmt::format("--framework torch --zero 0{}{}", masters ? "" : " --no-master-weights",
                      alone ? " --gpus 1" : ""),
          [masters, alone](Question& each) {
            each.training = with_framework(each.training, Framework::torch);
            each.training.master_weights = masters;
            undivide(each, 0);
            if (alone) each.cluster.gpus = each.cluster.nodes = each.cluster.gpus_per_node = 1;
          });
}

void add_precisions(const Question& q, std::vector<Variant>& variants) {
  const Training& t = q.training;
  const auto add = [&](std::string what, std::string options, std::function<void(Question&)> apply) {
    variants.push_back(
        {.cause = OomCause::dtype,
         .what = std::move(what),
         .check = "load the weights in 16 bits: from_pretrained(..., dtype=torch.bfloat16), and bf16=True of "
                  "the trainer or \"bf16\": {\"enabled\": true} of the ds_config",
         .options = std::move(options),
         .apply = std::move(apply)});
  };
  if (t.precision == Precision::fp32) return;
  add(fmt::format("weights and activations in fp32, not {}", to_name(t.precision)), "--precision fp32",
      [](Question& each) {
        each.training.precision = Precision::fp32;
        each.training = with_framework(each.training, each.training.framework);  // no autocast
        if (each.training.attention == Attention::flash) each.training.attention = Attention::sdpa;
      });
  if (!t.master_weights && t.method == Method::full)
    add("weights in fp32 under autocast, not in 16 bits", "",
        [](Question& each) { each.training.master_weights = true; });
}

void add_activations(const Question& q, const Strategy& s, std::vector<Variant>& variants) {
  if (s.checkpointing != Checkpointing::none)
    variants.push_back(
        {.cause = OomCause::checkpointing_off,
         .what = "no activation checkpointing",
         .check = "gradient_checkpointing=True of the trainer, or model.gradient_checkpointing_enable() with "
                  "model.enable_input_require_grads() for adapters; use_cache=False",
         .options = "--checkpointing none",
         .apply = [](Question& each) { each.space.checkpointing = Checkpointing::none; }});
  if (q.training.attention != Attention::eager)
    variants.push_back({.cause = OomCause::attention,
                        .what = "eager attention, which holds scores of every pair of tokens",
                        .check = "attn_implementation=\"flash_attention_2\" or \"sdpa\" of from_pretrained",
                        .options = "--attention eager",
                        .apply = [](Question& each) { each.training.attention = Attention::eager; }});
  if (q.training.fused_loss || q.training.fused_head)
    variants.push_back(
        {.cause = OomCause::unfused_loss,
         .what = "a loss over whole logits",
         .check = "use_liger_kernel=True of the trainer, before the model is made",
         .options = "",
         .apply = [](Question& each) { each.training.fused_loss = each.training.fused_head = false; }});
}

void add_methods(const Question& q, const Strategy& s, std::vector<Variant>& variants) {
  const Training& t = q.training;
  if (t.method == Method::qlora)
    variants.push_back(
        {.cause = OomCause::quantization_off,
         .what = "weights that are not quantised",
         .check = "quantization_config=BitsAndBytesConfig(load_in_4bit=True) of from_pretrained",
         .options = "--method lora",
         .apply = [](Question& each) { each.training.method = Method::lora; }});
  if (t.method == Method::lora)
    variants.push_back({.cause = OomCause::adapters_off,
                        .what = "all weights trained, not adapters",
                        .check = "peft_config of the trainer, or get_peft_model before the optimizer is made",
                        .options = "--method full",
                        .apply = [](Question& each) { each.training.method = Method::full; }});
  if (t.optimizer != Optimizer::adamw && t.method == Method::full)
    variants.push_back(
        {.cause = OomCause::optimizer,
         .what = fmt::format("AdamW with fp32 states, not {}", to_name(t.optimizer)),
         .check = "optim of the trainer, or \"optimizer\" of the ds_config, which overrules it",
         .options = "--optimizer adamw",
         .apply = [](Question& each) { each.training.optimizer = Optimizer::adamw; }});
  if (s.offload_optimizer != OffloadDevice::none || s.offload_parameters != OffloadDevice::none)
    variants.push_back(
        {.cause = OomCause::offload_off,
         .what = "nothing offloaded",
         .check = "offload_optimizer and offload_param in zero_optimization of the ds_config that the "
                  "process reads",
         .options = "--offload none",
         .apply = [](Question& each) { each.space.offloads = {Offload{}}; }});
}

void add_loading(const Question& q, const Strategy& s, std::vector<Variant>& variants) {
  if (s.zero_stage != 3 || q.training.partitions_made_models || !spec(q.training.framework).reads_ds_config)
    return;
  variants.push_back(
      {.cause = OomCause::loading,
       .what = "the model loaded whole on every GPU before ZeRO-3 divides it",
       .check = "make TrainingArguments(deepspeed=...) (or HfDeepSpeedConfig) before from_pretrained, and "
                "leave out device_map and .to(\"cuda\")",
       .options = "",
       .apply = [](Question& each) { each.training.partitions_made_models = true; }});
}

/// Returns all differences that are tried by themselves.
std::vector<Variant> single_variants(const Question& q, const Strategy& s) {
  std::vector<Variant> variants;
  add_stages(q, s, variants);
  add_loading(q, s, variants);
  add_precisions(q, variants);
  add_activations(q, s, variants);
  add_methods(q, s, variants);
  return variants;
}

// ---- from variants to explanations

/// A variant with its run.
struct Tried {
  const Variant* variant{};
  std::optional<Strategy> strategy;
  std::optional<Question> question;
  Comparison nearest;
};

Tried tried(const Question& pinned, const Variant& variant, const Observed& seen) {
  Tried out{.variant = &variant, .strategy = {}, .question = {}, .nearest = {}};
  Question q = pinned;
  variant.apply(q);
  const Candidates found = candidates(q);
  if (found.legal.empty()) return out;
  out.strategy = found.legal.front();
  out.nearest = compared(q, *out.strategy, seen);
  out.nearest.distance += variant.penalty;
  out.question = std::move(q);
  return out;
}

std::vector<Tried> all_tried(const Question& pinned, const std::vector<Variant>& variants,
                             const Observed& seen) {
  std::vector<Tried> all =
      mapped_in_parallel(variants, [&](const Variant& each) { return tried(pinned, each, seen); });
  std::erase_if(all, [](const Tried& each) { return each.nearest.distance > kNear; });
  std::stable_sort(all.begin(), all.end(),
                   [](const Tried& a, const Tried& b) { return a.nearest.distance < b.nearest.distance; });
  return all;
}

std::string agreement(const Comparison& nearest, const Observed& seen, ByteUnit unit) {
  const BlockRequest& block = *nearest.block;
  const std::string ask = nearest.same_block
                              ? fmt::format("asks for {}", seen.message.asked_text)
                              : fmt::format("asks for {} where the message says {}",
                                            torch_size(asked_of_device(block.size)), seen.message.asked_text);
  return fmt::format("simulated so, it {} ({}{}) with {} held, where the message says {}", ask,
                     info(block.term).name, block.at.empty() ? "" : fmt::format(", {}", block.at),
                     format_bytes(block.held, unit), format_bytes(seen.held, unit));
}

/// Returns which of a plan's states, whole on a GPU, make up for what the run held beyond the plan.
std::optional<std::string> whole_states(const Question& q, const Strategy& s, Bytes held, Bytes planned) {
  const Bytes weights = parameters(q.model) * weight_size(q.training);
  const std::int64_t ranks = s.layout.data_ranks();
  if (ranks < 2 || held < weights || held - planned < Bytes(weights.value / 4)) return std::nullopt;
  return fmt::format(
      "{} is this model's weights whole, {} a share of {} GPUs: the message holds {}, the plan {}",
      format_bytes(weights, q.unit), format_bytes(Bytes(weights.value / ranks), q.unit), ranks,
      format_bytes(held, q.unit), format_bytes(planned, q.unit));
}

struct Diagnosis {
  const Question& question;
  const Strategy& strategy;
  const OomReading& reading;
  const Observed& seen;
  Bytes planned;  ///< the most that the plan's run holds, with the block that it then asks for
};

/// The most that the run of the plan holds, with what it then asks for.
Bytes most_held(const Question& q, const Strategy& s, const OomMessage& message) {
  const RankRun run = run_of(q, s, message);
  std::vector<BlockRequest> requests;
  RunInputs inputs = run.inputs();
  inputs.requests = &requests;
  static_cast<void>(simulate(inputs));
  Bytes most{};
  for (const BlockRequest& each : requests) most = std::max(most, each.held + each.size);
  return most;
}

OomExplanation of_variant(const Diagnosis& about, const Tried& each) {
  const Variant& variant = *each.variant;
  OomExplanation out{.cause = variant.cause,
                     .what = "it ran with " + variant.what,
                     .check = variant.check,
                     .evidence = {agreement(each.nearest, about.seen, about.question.unit)},
                     .options = variant.options,
                     .distance = each.nearest.distance,
                     .gains = {}};
  out.gains = most_held(*each.question, *each.strategy, about.seen.message) - about.planned;
  if (variant.cause == OomCause::planned) {
    out.what = "it ran as planned, and that needs more than the GPU has";
    out.check = "see the changes below";
  }
  if (variant.cause == OomCause::zero_off)
    if (auto whole = whole_states(about.question, about.strategy, about.seen.held, about.planned))
      out.evidence.push_back(*std::move(whole));
  return out;
}

OomExplanation of_evaluation(const Diagnosis& about, const Evaluation& found) {
  const bool keeps = found.kept > 0;
  return {
      .cause = OomCause::evaluation,
      .what = keeps ? fmt::format("it ended in an evaluation, with the logits of {} batches of {} kept",
                                  found.kept, found.samples)
                    : fmt::format("it ended in an evaluation, with batches of {}", found.samples),
      .check = keeps
                   ? fmt::format(
                         "preprocess_logits_for_metrics that keeps token ids, eval_accumulation_steps=1, and "
                         "per_device_eval_batch_size=1 (8 by default)")
                   : fmt::format("per_device_eval_batch_size={}: 8 is the Trainer's default",
                                 std::max<std::int64_t>(1, about.strategy.micro_batch_size)),
      .evidence = {agreement(found.nearest, about.seen, about.question.unit)},
      .options =
          fmt::format("--eval-batch {}{}", found.samples, keeps ? " --eval-logits --eval-samples N" : ""),
      .distance = found.nearest.distance,
      .gains = {}};
}

/// Returns a cause that the message alone names.
OomExplanation of_message(const Diagnosis& about, OomCause cause) {
  const OomMessage& m = about.reading.message;
  const ByteUnit unit = about.question.unit;
  OomExplanation out{
      .cause = cause, .what = {}, .check = {}, .evidence = {}, .options = {}, .distance = {}, .gains = {}};
  const auto size = [unit](std::optional<Bytes> bytes) {
    return format_bytes(bytes.value_or(Bytes{}), unit);
  };
  switch (cause) {
    case OomCause::fragmentation:
      out.what = fmt::format("fragmentation: {} are reserved by PyTorch and not in use", size(m.unallocated));
      out.check =
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where it is launched; batches of one length";
      out.gains = m.unallocated;
      break;
    case OomCause::other_processes:
      out.what = about.reading.reserved_is_old
                     ? fmt::format("{} are held outside PyTorch: another process is on the GPU",
                                   size(about.reading.others))
                     : fmt::format("other processes hold {} of the GPU", size(about.reading.others));
      out.check = "nvidia-smi lists them: end processes of earlier runs, or use another GPU";
      out.gains = about.reading.others;
      break;
    default:
      out.what = about.reading.sentences.empty() ? std::string() : about.reading.sentences.back();
      break;
  }
  if (about.planned <= about.seen.pool)
    out.evidence.push_back(fmt::format("the plan holds at most {}, and PyTorch could have {}",
                                       format_bytes(about.planned, unit),
                                       format_bytes(about.seen.pool, unit)));
  return out;
}

/// True if the plan's own run holds as much at some time, so that only the GPU's memory is in question.
bool is_as_planned(const Diagnosis& about) {
  constexpr double kTolerance = 1.01;
  return number_of_bytes(about.seen.held + about.seen.message.asked) <=
         number_of_bytes(about.planned) * kTolerance;
}

/// Causes that the message speaks for by itself.
bool is_of_message(OomCause cause) {
  constexpr std::array kOwn{OomCause::other_processes, OomCause::fragmentation, OomCause::limit,
                            OomCause::enough_free};
  return std::ranges::find(kOwn, cause) != kOwn.end();
}

/// Returns explanations without those that name a cause again.
std::vector<OomExplanation> once_each(std::vector<OomExplanation> all) {
  std::vector<OomExplanation> kept;
  for (OomExplanation& each : all)
    if (std::ranges::find(kept, each.cause, &OomExplanation::cause) == kept.end())
      kept.push_back(std::move(each));
  return kept;
}

std::vector<OomExplanation> differences(const Question& pinned, const Diagnosis& about) {
  std::vector<Variant> variants = single_variants(pinned, about.strategy);
  const std::vector<Variant> sized = sized_by_block(pinned, about.strategy, about.seen);
  std::vector<Variant> all{
      {.cause = OomCause::planned, .what = "", .check = "", .options = "", .penalty = 0}};
  all.insert(all.end(), variants.begin(), variants.end());
  all.insert(all.end(), sized.begin(), sized.end());
  std::vector<OomExplanation> found;
  for (const Tried& each : all_tried(pinned, all, about.seen)) found.push_back(of_variant(about, each));
  if (const Evaluation evaluation = nearest_evaluation(pinned, about.strategy, about.seen);
      evaluation.nearest.distance + kDifference <= kNear) {
    found.push_back(of_evaluation(about, evaluation));
    *found.back().distance += kDifference;
  }
  std::ranges::stable_sort(found, {}, [](const OomExplanation& each) { return *each.distance; });
  if (!found.empty() && *found.front().distance <= kExact) return found;
  // No difference by itself comes near: two together may.
  const std::vector<Variant> pairs = joined(sized, variants);
  for (const Tried& each : all_tried(pinned, pairs, about.seen)) found.push_back(of_variant(about, each));
  std::ranges::stable_sort(found, {}, [](const OomExplanation& each) { return *each.distance; });
  return found;
}

}  // namespace

std::vector<OomExplanation> explain_oom(const OpenQuestion& open, const Strategy& strategy,
                                        const OomReading& reading) {
  const OomMessage& message = reading.message;
  if (message.source != OomSource::pytorch || !message.allocated) return {};
  const Question pinned = pinned_to(open.question, family_of(strategy));
  const Observed seen{message, pool_of(pinned, strategy, reading), *message.allocated};
  const Diagnosis about{pinned, strategy, reading, seen, most_held(pinned, strategy, message)};
  std::vector<OomExplanation> own, found = differences(pinned, about);
  for (const OomCause cause : causes_of(reading))
    if (is_of_message(cause)) own.push_back(of_message(about, cause));
  // What the plan holds does not end it where it fits into the memory that there was: then the message says
  // why.
  const bool fits =
      about.planned <= seen.pool + (own.empty() ? Bytes{} : own.front().gains.value_or(Bytes{}));
  const bool first = !own.empty() && is_as_planned(about) && fits;
  std::vector<OomExplanation> all = first ? std::move(own) : std::move(found);
  std::vector<OomExplanation>& rest = first ? found : own;
  std::ranges::move(rest, std::back_inserter(all));
  return once_each(std::move(all));
}

}  // namespace zplan
