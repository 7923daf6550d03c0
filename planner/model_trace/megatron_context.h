#pragma once
// Attention under Megatron-Core where ranks divide a sample's tokens (context parallelism).

#include <cstdint>

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

/// Returns a causal attention's operations of this rank, forward; the backward takes two and a half times as
/// many. Ranks of a group have equal shares of them: each has tokens of the beginning and of the end.
/// `features`: of a head's key and of its value together.
[[nodiscard]] Flops attention_work(const Program& p, std::int64_t features);

/// Returns how the layer that runs now exchanges keys and values.
[[nodiscard]] ContextExchange context_exchange(const Program& p);

/// Records the messages of a ring of `ranks` in the forward: keys and values go around but for the last step.
void pass_forward(Program& p, std::int64_t ranks);
/// Records those of the backward: keys and values go around first, their gradients one step behind, in one
/// message where there are both. Source: Transformer Engine 2.20.2
/// attention/dot_product_attention/context_parallel.py AttnFuncWithCPAndKVP2P.
void pass_backward(Program& p, std::int64_t ranks);

/// Records attention of queries [b, s, a, d], keys and values [b, s, k, d] of this rank's tokens, whose heads
/// ranks exchange for all tokens of some heads (a2a, and a2a+p2p, which has a ring besides), or whose keys
/// and values each rank gathers (all_gather). Source: Transformer Engine 2.20.2
/// attention/dot_product_attention/context_parallel.py AttnFuncWithCPAndQKVOA2A,
/// AttnFuncWithCPAndKVAllGather.
[[nodiscard]] Tensor attention_with_all_heads(Program& p, const Tensor& q, const Tensor& k, const Tensor& v);
[[nodiscard]] Tensor attention_with_all_keys(Program& p, const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace zplan::symbolic
