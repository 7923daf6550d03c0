#pragma once
// Rules that PyTorch's own frameworks, FSDP2 and DDP, share.

#include "planner/question/framework.h"

namespace zplan {

/// AdamW in one fused kernel and 16-bit computation under autocast; under LoRA a 16-bit base beside fp32
/// adapters. Source: docs/fsdp.md.
[[nodiscard]] Training adapt_to_torch(Training training);

/// Adds what neither can do.
void check_torch(const Training& training, const Strategy& strategy, Reasons& reasons);

/// Adds why ranks cannot exchange tokens for heads (ms-swift's sequence_parallel_size). Source: ms-swift 4.6
/// swift/sequence_parallel/sequence_parallel.py.
void check_ulysses(const Model& model, const Training& training, const Strategy& strategy, Reasons& reasons);
/// Warns of what that is planned without.
[[nodiscard]] Reasons ulysses_warnings(const Training& training, const Strategy& strategy);

/// bitsandbytes' optimizers are CUDA kernels.
void check_offloaded_optimizer(const Training& training, Reasons& reasons);

}  // namespace zplan
