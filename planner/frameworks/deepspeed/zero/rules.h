#pragma once
// Rules of DeepSpeed's settings, releases and stages: which copies of weights it keeps, and in which types.

#include "planner/question/strategy.h"

namespace zplan {

/// Since when DeepSpeed has what a plan may ask for. Source:
/// planner/frameworks/deepspeed/config/releases.json; tests compare.
inline constexpr DeepSpeedRelease kAutoTpTraining{0, 16, 4}, kMuon{0, 17, 6}, kBf16Masters{0, 18, 3},
    kMuonAtStage3{0, 18, 9}, kRecomputesFrozen{0, 19, 3};

/// True if stage 0 runs in FP16_Optimizer, which flattens: DeepSpeed's FusedAdam does, torch's optimizers
/// do not. Source: DeepSpeed 0.19.8 runtime/engine.py _configure_fp16_optimizer.
[[nodiscard]] bool flattens_replicated(const Training& training);
/// True if the step stops unless torch.utils.checkpoint is reentrant: frozen parameters at ZeRO-3 before
/// DeepSpeed 0.19.3, which releases them while a layer is recomputed. Source: DeepSpeed #8148; small steps
/// of 0.18.9, 0.19.2, 0.19.3 and 0.19.8 (docs/ds-config.md).
[[nodiscard]] bool needs_reentrant_checkpointing(const Training& training, const Strategy& strategy);
/// The type that DeepSpeed's gradients travel in: communication_data_type, else the training's. Under
/// sequence parallelism fp32 at stages 1 and 2, else seq_parallel_communication_data_type. Source: DeepSpeed
/// 0.19.8 runtime/engine.py _configure_distributed_model, stage_1_and_2.py allreduce_bucket.
[[nodiscard]] Precision sent_gradient_type(const Training& training, const Strategy& strategy);
/// True if DeepSpeed can do without an fp32 master copy: not at stage 0; fp16 ones only for its CPU Adam;
/// bf16 ones on the device, or for its CPU Adam. Source: DeepSpeed 0.19.8 runtime/base_optimizer.py
/// _configure_master_weights; runtime/config.py _do_error_check.
[[nodiscard]] bool can_drop_master(const Training& training, const Strategy& strategy);
/// Returns how weights are saved by default: whole, unless AutoEP refuses to gather them. Source:
/// DeepSpeed 0.19.8 runtime/engine.py _raise_if_autoep_zero3_consolidated_export.
[[nodiscard]] SavedModel usual_save(const Strategy& strategy);
/// True if --no-master-weights is set and DeepSpeed supports it: bf16_master_weights_and_grads and
/// bf16_optimizer_states, or fp16_master_weights_and_grads.
[[nodiscard]] bool drops_master(const Training& training, const Strategy& strategy);
/// The master copy of a 16-bit weight that the optimizer works on: 4 B, or 2 B where fp32 is dropped; 0 B in
/// fp32.
[[nodiscard]] Bytes master_size(const Training& training, const Strategy& strategy);
/// fp32 accumulation at stage 1 outside BF16_Optimizer (fp16, or offloaded states): every parameter gets a
/// whole fp32 accumulator, and buckets are fp32. Source: DeepSpeed 0.19.8 stage_1_and_2.py
/// use_grad_accum_attribute.
[[nodiscard]] bool accumulates_whole_fp32(const Training& training, const Strategy& strategy);
/// bf16 with fp32 accumulation at stage 1 runs in an optimizer of its own (BF16_Optimizer): whole fp32
/// gradients, no bucket. Source: DeepSpeed 0.19.8 runtime/engine.py _do_optimizer_sanity_check.
[[nodiscard]] bool uses_bf16_optimizer(const Training& training, const Strategy& strategy);

}  // namespace zplan
