// Rules about ranks: the batch that they share, and the degrees of parallelism.

#include <algorithm>

#include "planner/frameworks/deepspeed/config/expert_config.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

// ---- the batch

constexpr std::int64_t kLargest = 1'000'000'000'000;

/// A positive whole number that is written there.
std::optional<std::int64_t> count(const LintContext& context, const std::string& pointer) {
  const auto value = context.whole(pointer);
  return value && *value > 0 && *value < kLargest ? value : std::nullopt;
}

struct BatchKeys {
  std::optional<std::int64_t> train, micro, steps;
};

std::string product_text(const BatchKeys& batch) {
  std::string text;
  if (batch.micro) text += fmt::format("{} per GPU", *batch.micro);
  if (batch.steps) text += fmt::format("{}{} accumulation steps", text.empty() ? "" : " x ", *batch.steps);
  return text.empty() ? "1" : text;
}

constexpr const char* kRule =
    "train_batch_size = train_micro_batch_size_per_gpu x "
    "gradient_accumulation_steps x GPUs";

void check_missing(LintContext& context) {
  if (context.has("/train_batch_size") || context.has("/train_micro_batch_size_per_gpu")) return;
  context.add("no-batch-size", "",
              {.found = "neither train_batch_size nor train_micro_batch_size_per_gpu",
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: it cannot work the batch out",
               .advice = "write train_micro_batch_size_per_gpu"});
}

/// Returns micro-batch times accumulation steps.
std::int64_t per_gpu(const BatchKeys& batch) { return batch.micro.value_or(1) * batch.steps.value_or(1); }

constexpr const char* kTrain = "/train_batch_size";
constexpr const char* kMicro = "/train_micro_batch_size_per_gpu";
constexpr const char* kSteps = "/gradient_accumulation_steps";

/// Returns the edits that write each of the three keys that `to` names and the file says otherwise.
LintFix batch_written(const LintContext& context, const BatchKeys& from, const BatchKeys& to,
                      std::string_view why) {
  LintFix fix;
  const auto write = [&](const char* pointer, std::optional<std::int64_t> old,
                         std::optional<std::int64_t> now) {
    if (!now || old == now) return;
    LintFix one = context.writing(pointer, std::to_string(*now));
    fix.what += (fix.what.empty() ? "" : " and ") + (fix.what.empty() ? one.what : one.what.substr(6));
    fix.edits.insert(fix.edits.end(), one.edits.begin(), one.edits.end());
  };
  write(kMicro, from.micro, to.micro);
  write(kSteps, from.steps, to.steps);
  write(kTrain, from.train, to.train);
  fix.what += why;
  return fix;
}

/// The largest divisor of `number` up to `most`.
std::int64_t largest_divisor(std::int64_t number, std::int64_t most) {
  std::int64_t each = std::min(number, most);
  while (number % each != 0) --each;
  return each;
}

/// Returns the repair that keeps the batch on `ranks`, which is that of the training: first by accumulation,
/// which keeps the micro-batch and so the memory, else by a smaller micro-batch. Nothing where they cannot
/// share it.
std::optional<LintFix> batch_kept(const LintContext& context, const BatchKeys& batch, std::int64_t ranks) {
  if (*batch.train % ranks != 0) return std::nullopt;
  const std::int64_t share = *batch.train / ranks;
  BatchKeys kept{batch.train, std::nullopt, std::nullopt};
  if (batch.micro) {
    kept.micro = largest_divisor(share, *batch.micro);
    kept.steps = batch.steps || share != *kept.micro ? std::optional(share / *kept.micro) : std::nullopt;
  } else {
    kept.steps = largest_divisor(share, *batch.steps);
  }
  return batch_written(context, batch, kept, fmt::format(", which keeps the batch of {}", *batch.train));
}

/// Returns the repair that keeps the micro-batch: the nearest batch that is a multiple of it on `ranks`.
LintFix micro_batch_kept(const LintContext& context, const BatchKeys& batch, std::int64_t ranks) {
  const std::int64_t unit = batch.micro.value_or(batch.steps.value_or(1)) * ranks;
  const std::int64_t times = std::max<std::int64_t>(1, (*batch.train + unit / 2) / unit);
  BatchKeys near{unit * times, batch.micro, batch.steps};
  if (batch.micro && batch.steps) near.steps = times;
  return batch_written(context, batch, near, "");
}

/// Returns the repairs of a batch on `ranks` that its parts do not make, the one that keeps most first.
std::vector<LintFix> batch_repairs(const LintContext& context, const BatchKeys& batch, std::int64_t ranks) {
  std::vector<LintFix> repairs;
  if (auto kept = batch_kept(context, batch, ranks)) repairs.push_back(*std::move(kept));
  const std::int64_t product = per_gpu(batch) * ranks;
  if (repairs.empty()) repairs.push_back(micro_batch_kept(context, batch, ranks));
  LintFix as_parts = batch_written(context, batch, {product, batch.micro, batch.steps}, "");
  const bool pinned = batch.micro && batch.steps;
  if (pinned && as_parts.what != repairs.front().what) repairs.push_back(std::move(as_parts));
  return repairs;
}

/// Reports a batch that its parts do not make, with its repairs.
void add_batch(LintContext& context, std::string_view rule, LintContext::Saying saying,
               const BatchKeys& batch, std::int64_t ranks, std::string_view rest) {
  std::vector<LintFix> repairs = batch_repairs(context, batch, ranks);
  saying.fix = std::move(repairs.front());
  saying.others.assign(std::make_move_iterator(repairs.begin() + 1), std::make_move_iterator(repairs.end()));
  saying.advice = offered(saying.fix, saying.others) + std::string(rest);
  context.add(rule, kTrain, std::move(saying));
}

void check_given_gpus(LintContext& context, const BatchKeys& batch, std::int64_t gpus) {
  const std::int64_t product = per_gpu(batch) * gpus;
  const bool whole = batch.micro && batch.steps ? *batch.train == product : *batch.train % product == 0;
  if (whole) return;
  const bool pinned = batch.micro && batch.steps;
  const bool other_gpus = pinned && *batch.train % per_gpu(batch) == 0;
  add_batch(
      context, "batch-product",
      {.found = fmt::format("{} is not {}{} x {} GPUs", *batch.train, pinned ? "" : "a multiple of ",
                            product_text(batch), gpus),
       .outcome = Outcome::raises,
       .effect = fmt::format("DeepSpeed stops: {}", kRule)},
      batch, gpus,
      other_gpus ? fmt::format("; or run it on {} GPUs", *batch.train / per_gpu(batch)) : std::string());
}

void check_any_gpus(LintContext& context, const BatchKeys& batch) {
  const std::int64_t unit = per_gpu(batch);
  if (*batch.train % unit != 0) {
    context.add("batch-product", "/train_batch_size",
                {.found = fmt::format("{} is not a multiple of {}, on any number of GPUs", *batch.train,
                                      product_text(batch)),
                 .outcome = Outcome::raises,
                 .effect = fmt::format("DeepSpeed stops: {}", kRule),
                 .advice = fmt::format("write a multiple of {}, or say --gpus N for a repair", unit)});
    return;
  }
  const std::int64_t gpus = *batch.train / unit;
  const bool pinned = batch.micro && batch.steps;
  context.add(
      "batch-gpus", "/train_batch_size",
      {.found = pinned ? fmt::format("{} = {} x {} GPUs", *batch.train, product_text(batch), gpus)
                       : fmt::format("{}, with {}", *batch.train, product_text(batch)),
       .outcome = Outcome::runs,
       .effect = pinned ? fmt::format("DeepSpeed stops on any other number of GPUs than {}", gpus)
                        : fmt::format("DeepSpeed stops where the number of GPUs does not divide {}", gpus),
       .advice = "say --gpus N to have it checked"});
}

void check_product(LintContext& context) {
  const BatchKeys batch{count(context, "/train_batch_size"),
                        count(context, "/train_micro_batch_size_per_gpu"),
                        count(context, "/gradient_accumulation_steps")};
  // The Trainer fills in values for which the product holds.
  const bool open = is_auto(context.at("/train_micro_batch_size_per_gpu")) ||
                    is_auto(context.at("/gradient_accumulation_steps"));
  if (!batch.train || open) return;
  if (batch.micro && batch.steps && *batch.micro > kLargest / *batch.steps) return;
  if (context.sequence_parallel() > 1) return;  // these ranks are counted once: lint_sequence
  if (context.options.gpus)
    check_given_gpus(context, batch, *context.options.gpus);
  else
    check_any_gpus(context, batch);
}

void check_tensor_parallel_batch(LintContext& context) {
  const auto degree = context.whole("/tensor_parallel/autotp_size");
  if (!degree || *degree < 2 || context.stage != 3 || !context.has("/train_batch_size")) return;
  context.add("batch-autotp-zero3", "/train_batch_size",
              {.found = "train_batch_size beside AutoTP at ZeRO-3",
               .outcome = Outcome::raises,
               .effect = "DeepSpeed checks it once with and once without the tensor-parallel ranks, and no "
                         "value passes both",
               .advice = "leave it out: it is worked out from the other two",
               .fix = context.has("/train_micro_batch_size_per_gpu")
                          ? std::optional(context.removal("/train_batch_size"))
                          : std::nullopt});
}

void check_ranks(LintContext& context) {
  const auto gpus = context.options.gpus;
  const auto degree = context.whole("/tensor_parallel/autotp_size");
  if (degree && gpus && *degree > 1 && *gpus % *degree != 0)
    context.add("tensor-parallel-ranks", "/tensor_parallel/autotp_size",
                {.found = fmt::format("{}, which does not divide {} GPUs", *degree, *gpus),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: it cannot make groups of that size",
                 .advice = "write a divisor of the number of GPUs"});
  const auto option = context.options.tensor_parallel;
  if (option && std::max<std::int64_t>(1, degree.value_or(1)) != *option && context.has("/tensor_parallel"))
    context.add("tensor-parallel-differs", degree ? "/tensor_parallel/autotp_size" : "/tensor_parallel",
                {.found = fmt::format("autotp_size {} beside --tp {}", degree.value_or(0), *option),
                 .outcome = Outcome::runs,
                 .effect = "DeepSpeed divides by autotp_size",
                 .advice = fmt::format("write {}, or leave --tp out", *option)});
  const auto inner = context.whole("/tensor_parallel/tp/tp_size");
  if (inner && *inner != 1 && *inner != std::max<std::int64_t>(1, degree.value_or(1)))
    context.add(
        "tensor-parallel-differs", "/tensor_parallel/tp/tp_size",
        {.found = fmt::format("{} beside autotp_size {}", *inner, degree.value_or(0)),
         .outcome = degree.value_or(0) > 1 ? Outcome::raises : Outcome::ignored,
         .effect = degree.value_or(0) > 1 ? "DeepSpeed stops: they must agree"
                                          : "DeepSpeed divides nothing: autotp_size alone turns it on",
         .advice = "write the degree as autotp_size",
         .fix = degree ? std::nullopt
                       : std::optional(LintFix{fmt::format("write \"autotp_size\": {}", *inner),
                                               set_member(context.ds, "/tensor_parallel", "autotp_size",
                                                          fmt::format("{}", *inner))})});
}

// ---- sequence parallelism: DeepSpeed's Ulysses as accelerate sets it up

constexpr const char* kSize = "/sequence_parallel_size";
constexpr const char* kType = "/seq_parallel_communication_data_type";

void check_degree(LintContext& context, std::int64_t ranks) {
  const auto written = context.whole(kSize);
  const auto option = context.options.sequence_parallel;
  if (written && option && *written != *option)
    context.add("sequence-parallel-differs", kSize,
                {.found = fmt::format("{} beside --sp {}", *written, *option),
                 .outcome = Outcome::runs,
                 .effect = "zero.Init counts batches by one degree, and Ulysses divides by the other",
                 .advice = fmt::format("write {}, or leave --sp out", *option)});
  const auto gpus = context.options.gpus;
  if (gpus && *gpus % ranks != 0)
    context.add("sequence-parallel-ranks", written ? kSize : "",
                {.found = fmt::format("sequence parallel {} among {} GPUs", ranks, *gpus),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: it cannot make groups of that size",
                 .advice = "take a divisor of the number of GPUs"});
}

/// Checks the batch, in which the samples of one rank of each group count.
void check_batch(LintContext& context, std::int64_t ranks) {
  const auto gpus = context.options.gpus;
  const auto train = context.whole("/train_batch_size");
  const auto micro = context.whole("/train_micro_batch_size_per_gpu");
  const auto steps = context.whole("/gradient_accumulation_steps");
  if (!gpus || *gpus % ranks != 0 || !train || !micro || !steps) return;
  const std::int64_t product = *micro * *steps * (*gpus / ranks);
  if (*train == product) return;
  if (*train <= 0 || *micro <= 0 || *steps <= 0) return;  // see lint_values
  add_batch(context, "sequence-parallel-batch",
            {.found = fmt::format("{} is not {} per GPU x {} accumulation steps x {} GPUs / {}", *train,
                                  *micro, *steps, *gpus, ranks),
             .outcome = Outcome::raises,
             .effect = "DeepSpeed stops: the ranks of a sample count once"},
            {train, micro, steps}, *gpus / ranks, "; or leave it out: accelerate works it out");
}

void check_sequence_clipping(LintContext& context, std::int64_t ranks) {
  const Json& clipping = context.at("/gradient_clipping");
  const bool clips = !clipping.is_number() || clipping.get<double>() > 0;
  if (!divides_groups(context.stage) || !clips) return;
  const bool written = context.has("/gradient_clipping");
  context.add(
      "sequence-parallel-clipping", written ? "/gradient_clipping" : "",
      {.found =
           fmt::format("gradients are clipped at ZeRO-{} under sequence parallel {}", context.stage, ranks),
       .outcome = Outcome::runs,
       .effect = fmt::format("the norm that is clipped is {} times too large, so clipping is that much "
                             "tighter than it says",
                             ranks),
       .advice = fmt::format("write {} times the norm that is meant, or take ZeRO-3", ranks)});
}

void check_type(LintContext& context) {
  if (!divides_groups(context.stage) || !context.has(kType) || context.text(kType) == "fp32") return;
  context.add("sequence-parallel-type", kType,
              {.found = fmt::format("{} at ZeRO-{}", shown_value(context.at(kType)), context.stage),
               .outcome = Outcome::ignored,
               .effect = "stages 1 and 2 reduce in fp32 under sequence parallelism, whatever it says",
               .advice = "leave it out",
               .fix = context.removal(kType)});
}

// ---- expert parallelism: DeepSpeed's AutoEP

constexpr const char* kExperts = "/expert_parallel";

/// Returns what file and options state. An unknown model is assumed to be one that DeepSpeed accepts.
ExpertUse use_of(const LintContext& context, const ExpertConfig& config) {
  ExpertUse use;
  use.config = config;
  const bool knows_model = !context.options.architecture.empty();
  use.architecture = knows_model ? context.options.architecture : architecture_with_preset();
  use.experts = knows_model ? context.options.experts : std::max<std::int64_t>(1, config.autoep_size);
  use.ranks = context.options.gpus.value_or(std::max<std::int64_t>(1, config.autoep_size) *
                                            std::max<std::int64_t>(1, config.expert_tensor_parallel_size));
  use.tensor_parallel = std::max<std::int64_t>(
      1, context.options.tensor_parallel.value_or(context.whole("/tensor_parallel/autotp_size").value_or(1)));
  if (const std::string preset = context.text("/tensor_parallel/preset_model"); !preset.empty())
    use.tensor_preset = preset;
  use.has_partition_config = context.has("/tensor_parallel/partition_config") || !knows_model;
  use.zero_stage = context.stage;
  use.precision = context.precision() == "fp16"   ? Precision::fp16
                  : context.precision() == "fp32" ? Precision::fp32
                                                  : Precision::bf16;
  use.offloads = context.device(kZero + "/offload_optimizer") != "none" ||
                 context.device(kZero + "/offload_param") != "none";
  use.data_before_expert = context.flag("/use_data_before_expert_parallelism", false);
  use.contiguous_gradients = context.flag(kZero + "/contiguous_gradients", true);
  use.reduce_scatter = context.flag(kZero + "/reduce_scatter", true);
  use.quantized_gradients = context.flag(kZero + "/zero_quantized_gradients", false);
  use.secondary_partition = context.whole(kZero + "/zero_hpz_partition_size").value_or(1);
  use.fp32_accumulation = context.text("/data_types/grad_accum_dtype") == "fp32";
  return use;
}

void check_expert_optimizer(LintContext& context) {
  if (context.stage != 1 && context.stage != 2) return;
  if (context.has("/optimizer")) return;
  context.add(
      "expert-parallel-optimizer", kExperts,
      {.found = fmt::format("expert parallelism at ZeRO-{} without \"optimizer\"", context.stage),
       .outcome = Outcome::raises,
       .effect = "with an optimizer of the script's, the HF Trainer's among them, DeepSpeed stops: \"The "
                 "model has moe layers, but None of the param groups are marked as MoE. Create a param "
                 "group with 'moe' key set to True before creating optimizer\"",
       .advice = "write an \"optimizer\" section"});
}

}  // namespace

void lint_batch(LintContext& context) {
  if (!context.at("").is_object()) return;
  check_missing(context);
  check_product(context);
  check_tensor_parallel_batch(context);
  check_ranks(context);
}

void lint_sequence(LintContext& context) {
  if (!context.at("").is_object()) return;
  const std::int64_t ranks = context.sequence_parallel();
  if (ranks < 2) return;
  check_degree(context, ranks);
  check_batch(context, ranks);
  check_sequence_clipping(context, ranks);
  check_type(context);
}

void lint_experts(LintContext& context) {
  if (!context.at("").is_object() || !context.at(kExperts).is_object()) return;
  const JsonReader section(context.at(kExperts), "expert_parallel");
  ExpertConfig config;
  try {
    config = read_expert_config(section);
  } catch (const InputError&) {
    return;  // values of another type are the business of other rules
  }
  for (const std::string& key : config.unknown) {
    const std::string pointer = std::string(kExperts) + "/" + key;
    context.add("expert-parallel-key", pointer,
                {.found = fmt::format("unknown key \"{}\"", key),
                 .outcome = Outcome::ignored,
                 .effect = "DeepSpeed reads the keys that it knows and says nothing of others",
                 .advice = "remove it"});
  }
  const ExpertAnswer answer = answer_of_deepspeed(use_of(context, config));
  if (answer.error)
    context.add("expert-parallel-refused", kExperts,
                {.found = "an expert_parallel section that DeepSpeed refuses",
                 .outcome = Outcome::raises,
                 .effect = fmt::format("DeepSpeed stops: {}", *answer.error)});
  if (!config.enabled) return;
  if (!answer.error && !answer.replaces)
    context.add(
        "expert-parallel-nothing", kExperts,
        {.found = fmt::format("expert parallelism of {}", context.options.architecture),
         .outcome = Outcome::ignored,
         .effect = "AutoEP finds nothing to replace, warns of it and trains without expert parallelism",
         .advice = "leave the section out"});
  else if (!answer.error)
    check_expert_optimizer(context);
}

}  // namespace zplan
