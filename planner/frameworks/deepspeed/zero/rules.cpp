#include "planner/frameworks/deepspeed/zero/rules.h"

namespace zplan {

bool flattens_replicated(const Training& training) {
  return training.framework == Framework::deepspeed && training.precision != Precision::fp32 &&
         training.optimizer_kernel == OptimizerKernel::deepspeed_fused;
}

bool needs_reentrant_checkpointing(const Training& training, const Strategy& s) {
  const bool recomputes_frozen = s.checkpointing != Checkpointing::none && training.method != Method::full;
  return training.framework == Framework::deepspeed && s.zero_stage == 3 && recomputes_frozen &&
         training.deepspeed < kRecomputesFrozen;
}

Precision sent_gradient_type(const Training& training, const Strategy& s) {
  if (s.layout.sequence > 1)
    return divides_groups(s.zero_stage) ? Precision::fp32 : s.zero.sequence_communication_type;
  return s.zero.communication_type.value_or(training.precision);
}

bool can_drop_master(const Training& training, const Strategy& s) {
  if (s.zero_stage == 0 || training.precision == Precision::fp32) return false;
  if (training.precision == Precision::bf16 && training.deepspeed < kBf16Masters) return false;
  const bool on_device = s.offload_optimizer == OffloadDevice::none;
  const bool cpu_adam = !on_device && training.optimizer == Optimizer::adamw;
  return training.precision == Precision::fp16 ? cpu_adam : on_device || cpu_adam;
}

SavedModel usual_save(const Strategy& strategy) {
  return strategy.zero_stage == 3 && strategy.experts.enabled ? SavedModel::sharded : SavedModel::full;
}

bool drops_master(const Training& training, const Strategy& s) {
  return !training.master_weights && can_drop_master(training, s);
}

Bytes master_size(const Training& training, const Strategy& s) {
  if (training.precision == Precision::fp32) return Bytes(0);
  return Bytes(drops_master(training, s) ? 2 : 4);
}

bool accumulates_whole_fp32(const Training& training, const Strategy& s) {
  return s.zero_stage == 1 && s.zero.fp32_gradient_accumulation && training.precision != Precision::fp32 &&
         !uses_bf16_optimizer(training, s);
}

bool uses_bf16_optimizer(const Training& training, const Strategy& s) {
  return s.zero_stage == 1 && s.zero.fp32_gradient_accumulation && training.precision == Precision::bf16 &&
         s.offload_optimizer == OffloadDevice::none;
}

}  // namespace zplan
