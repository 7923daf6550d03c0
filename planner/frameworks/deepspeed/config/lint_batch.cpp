// Rules about the batch: DeepSpeed's arithmetic of batch sizes, and the GPUs it is for.

#include <algorithm>

#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

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

/// What the keys but for the number of GPUs multiply to.
std::int64_t per_gpu(const BatchKeys& batch) { return batch.micro.value_or(1) * batch.steps.value_or(1); }

void check_given_gpus(LintContext& context, const BatchKeys& batch, std::int64_t gpus) {
  const std::int64_t product = per_gpu(batch) * gpus;
  const bool whole = batch.micro && batch.steps ? *batch.train == product : *batch.train % product == 0;
  if (whole) return;
  const bool pinned = batch.micro && batch.steps;
  std::string advice =
      pinned ? fmt::format("write {}", product) : fmt::format("write a multiple of {}", product);
  if (pinned && *batch.train % per_gpu(batch) == 0)
    advice += fmt::format(", or run it on {} GPUs", *batch.train / per_gpu(batch));
  context.add("batch-product", "/train_batch_size",
              {.found = fmt::format("{} is not {}{} x {} GPUs", *batch.train, pinned ? "" : "a multiple of ",
                                    product_text(batch), gpus),
               .outcome = Outcome::raises,
               .effect = fmt::format("DeepSpeed stops: {}", kRule),
               .advice = advice});
}

void check_any_gpus(LintContext& context, const BatchKeys& batch) {
  const std::int64_t unit = per_gpu(batch);
  if (*batch.train % unit != 0) {
    context.add("batch-product", "/train_batch_size",
                {.found = fmt::format("{} is not a multiple of {}, on any number of GPUs", *batch.train,
                                      product_text(batch)),
                 .outcome = Outcome::raises,
                 .effect = fmt::format("DeepSpeed stops: {}", kRule),
                 .advice = fmt::format("write a multiple of {}", unit)});
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
  // What the Trainer fills in, it fills in so that the product holds.
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

}  // namespace

void lint_batch(LintContext& context) {
  if (!context.at("").is_object()) return;
  check_missing(context);
  check_product(context);
  check_tensor_parallel_batch(context);
  check_ranks(context);
}

}  // namespace zplan
