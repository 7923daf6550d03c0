#pragma once
// torch.nn.functional.scaled_dot_product_attention over tensors without values: which kernel it takes, and
// what each makes and keeps. Named and described as operators.h does it. Source: torch 2.11
// aten/src/ATen/native/transformers/{attention.cpp,cuda/attention.cu,cuda/attention_backward.cu}.

#include <cstdint>
#include <vector>

#include "planner/model_trace/autograd.h"

namespace zplan::symbolic {

/// How an attention's scores are bounded and thinned out.
struct AttentionOptions {
  bool causal{};      ///< by position, without a mask
  bool dropout{};     ///< probabilities drop out
  bool broadcasts{};  ///< one key-value head is broadcast, not repeated (no enable_gqa)
  bool operator==(const AttentionOptions&) const = default;
};

/// q [b, a, s, d], k and v [b, k, s, d] with k dividing a; `mask`, of booleans that broadcast to [b, a, s,
/// s], may be undefined. Returns [b, a, s, d].
[[nodiscard]] Tensor scaled_dot_product_attention(Autograd& torch, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& mask,
                                                  AttentionOptions options);

/// The flash kernel: causal, 16 bits, no mask, up to 256 features a head. `samples` of equal length lie one
/// behind the other along s.
[[nodiscard]] Tensor flash_attention(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                                     bool dropout = false, std::int64_t samples = 1);

/// Attention over each part of a sample's tokens by itself, one kernel a part, of q, k and v [1, a, s, d]:
/// `count` parts of `length` tokens, one behind the other. The results are concatenated to [1, s, a, d].
/// Parts of one length are told as one block of their sizes together.
struct TokenParts {
  std::int64_t count{}, length{};
  bool operator==(const TokenParts&) const = default;
};
[[nodiscard]] Tensor attention_by_parts(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const std::vector<TokenParts>& parts);
/// scaled_dot_product_attention in which every token sees all others.
[[nodiscard]] Tensor whole_attention(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v);

/// torch.where(mask, x, number), as PyTorch up to 1.10 had it: the backward reads a tensor of zeros, too. The
/// mask, which all heads share, is not counted. Source: tools/autograd/derivatives.yaml _s_where.
[[nodiscard]] Tensor where(Autograd& torch, const Tensor& x);

/// One of the steps of ring attention, outside the graph: queries on keys of some rank, `causal` where they
/// are the same tokens.
struct FlashStep {
  Tensor output, sums;
};
[[nodiscard]] FlashStep flash_step(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                                   bool causal);
/// Gradients of its queries, keys and values.
[[nodiscard]] Tensors flash_step_backward(Autograd& torch, const Tensor& q, const Tensor& k, const Tensor& v,
                                          const FlashStep& step, const Tensor& gradient, bool causal);

}  // namespace zplan::symbolic
