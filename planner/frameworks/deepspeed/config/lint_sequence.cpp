// Rules about sequence parallelism: DeepSpeed's Ulysses as accelerate sets it up.

#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

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

/// Of one rank of each group the samples count.
void check_batch(LintContext& context, std::int64_t ranks) {
  const auto gpus = context.options.gpus;
  const auto train = context.whole("/train_batch_size");
  const auto micro = context.whole("/train_micro_batch_size_per_gpu");
  const auto steps = context.whole("/gradient_accumulation_steps");
  if (!gpus || *gpus % ranks != 0 || !train || !micro || !steps) return;
  const std::int64_t product = *micro * *steps * (*gpus / ranks);
  if (*train == product) return;
  context.add("sequence-parallel-batch", "/train_batch_size",
              {.found = fmt::format("{} is not {} per GPU x {} accumulation steps x {} GPUs / {}", *train,
                                    *micro, *steps, *gpus, ranks),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: the ranks of a sample count once",
               .advice = fmt::format("write {}, or leave it out: accelerate works it out", product)});
}

void check_clipping(LintContext& context, std::int64_t ranks) {
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

}  // namespace

void lint_sequence(LintContext& context) {
  if (!context.at("").is_object()) return;
  const std::int64_t ranks = context.sequence_parallel();
  if (ranks < 2) return;
  check_degree(context, ranks);
  check_batch(context, ranks);
  check_clipping(context, ranks);
  check_type(context);
}

}  // namespace zplan
