#pragma once
// The optimizer's step: states that it makes at its first one, memory that it takes for a moment, bytes that
// it moves.

#include <vector>

#include "planner/sharding/optimizer_state.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/device.h"

namespace zplan {

/// Simulates one step over these tensors, in order; `first`: their states are made. For a moment it takes
/// nothing in fused kernels and in bitsandbytes'; AdamW's denominators, of all tensors at once (foreach) or
/// of one (single); the update of Lion (lion-pytorch); Adafactor's estimate (torch) or its fp32 gradient,
/// weight and update (transformers). Source: torch 2.11 optim/{adam,_adafactor}.py; transformers 5.23
/// optimization.py; lion-pytorch 0.2.5; allocator traces of each.
void optimizer_step(Device& device, const Training& training, const std::vector<OptimizerTensor>& tensors,
                    bool first);

/// torch.nn.utils.clip_grad_norm_: every tensor gets memory for the partial norms that the largest needs, 4 B
/// per 65,536 elements. Source: torch 2.11 aten/src/ATen/native/cuda/ForeachReduceOp.cu.
void clip_gradient_norm(Device& device, const std::vector<OptimizerTensor>& tensors);

/// Returns the bytes that one rank's step reads and writes on the device: gradient 4, master weights 4 + 4,
/// two moments 8 + 8, weight 2 an element that it updates; none where the optimizer is offloaded. Source:
/// fused Adam reads and writes each once.
[[nodiscard]] Bytes optimizer_traffic(const Strategy& strategy, const Shard& shard);

}  // namespace zplan
