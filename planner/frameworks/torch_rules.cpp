#include "planner/frameworks/torch_rules.h"

#include <fmt/format.h>

#include "planner/plan/legality.h"
#include "planner/sharding/plan_split.h"

namespace zplan {

Training adapt_to_torch(Training training) {
  const bool is_16_bit = training.precision != Precision::fp32;
  if (training.optimizer_kernel == OptimizerKernel::deepspeed_fused)
    training.optimizer_kernel = OptimizerKernel::fused;
  training.autocast = is_16_bit;
  if (training.method == Method::lora && is_16_bit) training.master_weights = false;
  training.fsdp_makes_shards = spec(training.framework).makes_shards;
  training.fsdp_reduces_fp32 = !is_16_bit;
  return training;
}

void check_torch(const Training& training, const Strategy& s, Reasons& reasons) {
  if (s.layout.tensor > 1 && !splits_by_plan(training))
    reasons.emplace_back("tensor parallelism is planned for DeepSpeed's AutoTP and FSDP2");
  if (s.experts.enabled) reasons.emplace_back("expert parallelism is planned for DeepSpeed's AutoEP alone");
  if (training.steps_in_backward && s.gradient_accumulation_steps > 1)
    reasons.push_back(
        fmt::format("an optimizer that steps in the backward needs one micro-batch per step, not {}",
                    s.gradient_accumulation_steps));
  if (spec(training.optimizer).deepspeed_only)
    reasons.push_back(fmt::format("{} is planned as DeepSpeed's alone", to_name(training.optimizer)));
}

void check_ulysses(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  const std::int64_t ranks = s.layout.sequence, heads = model.shape.attention_heads;
  const std::int64_t key_value = model.shape.key_value_heads;
  if (ranks == 1) return;
  if (heads % ranks != 0 || (key_value % ranks != 0 && ranks % key_value != 0))
    reasons.push_back(
        fmt::format("sequence parallel {} is planned where it divides the {} attention heads, and it and the "
                    "{} key-value heads divide one another",
                    ranks, heads, key_value));
  if (training.sequence_length % ranks != 0)
    reasons.push_back(fmt::format("sequence parallel {} does not divide sequences of {} tokens", ranks,
                                  training.sequence_length));
  if (training.attention == Attention::eager)
    reasons.emplace_back("ms-swift runs sequence parallelism with --attention flash or sdpa");
  if (!shares_attention(model.shape) || model.shape.latent_attention)
    reasons.push_back(
        fmt::format("sequence parallelism of {}'s attention is not planned", model.shape.architecture));
}

Reasons ulysses_warnings(const Training&, const Strategy& s) {
  if (s.layout.sequence == 1) return {};
  return {
      "sequence parallel beside DDP and FSDP2 is ms-swift's: where it exceeds the key-value heads, ms-swift "
      "passes keys in a ring over the rest; planned is an exchange of tokens for heads alone, with heads "
      "repeated"};
}

void check_offloaded_optimizer(const Training& training, Reasons& reasons) {
  if (spec(training.optimizer).form == StateForm::packed)
    reasons.push_back(fmt::format("{} runs on the device alone", to_name(training.optimizer)));
}

}  // namespace zplan
