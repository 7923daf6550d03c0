#include "planner/frameworks/torch_rules.h"

#include <fmt/format.h>

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
  if (s.layout.tensor > 1) reasons.emplace_back("tensor parallelism is planned for DeepSpeed's AutoTP alone");
  if (s.experts.enabled) reasons.emplace_back("expert parallelism is planned for DeepSpeed's AutoEP alone");
  if (training.steps_in_backward && s.gradient_accumulation_steps > 1)
    reasons.push_back(
        fmt::format("an optimizer that steps in the backward needs one micro-batch per step, not {}",
                    s.gradient_accumulation_steps));
  if (spec(training.optimizer).deepspeed_only)
    reasons.push_back(fmt::format("{} is planned as DeepSpeed's alone", to_name(training.optimizer)));
}

void check_offloaded_optimizer(const Training& training, Reasons& reasons) {
  if (spec(training.optimizer).form == StateForm::packed)
    reasons.push_back(fmt::format("{} runs on the device alone", to_name(training.optimizer)));
}

}  // namespace zplan
