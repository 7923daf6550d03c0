#pragma once
// PyTorch's operators over tensors without values: what each makes, what it keeps for its backward, and what
// its backward makes, in PyTorch's order. Names are PyTorch's. Source: torch 2.11
// tools/autograd/derivatives.yaml and the host code of its CUDA kernels; compared with PyTorch's own
// allocations (docs/activations.md).

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/model_trace/autograd.h"

namespace zplan::symbolic {

/// Some kernels divide their work by the number of multiprocessors, and take memory accordingly: an A100's.
inline constexpr std::int64_t kMultiprocessors = 108;

/// Sizes of `x` as they are, less what was broadcast: the gradient of an operand that was expanded.
[[nodiscard]] Tensor sum_to(Autograd& torch, const Tensor& x, const Dimensions& sizes);

// ---- views ------------------------------------------------------------------------------------------------

[[nodiscard]] Tensor view(Autograd& torch, const Tensor& x, Dimensions sizes);
/// A view where strides allow one, a copy otherwise.
[[nodiscard]] Tensor reshape(Autograd& torch, const Tensor& x, Dimensions sizes);
[[nodiscard]] Tensor transpose(Autograd& torch, const Tensor& x, std::size_t a, std::size_t b);
/// Dimension i of the result is dimension `order[i]` of x.
[[nodiscard]] Tensor permute(Autograd& torch, const Tensor& x, const std::vector<std::size_t>& order);
/// The gradient of a part of a tensor of sizes `whole`: zeros, and the part's own copied in.
[[nodiscard]] Tensor padded(Autograd& torch, const Tensor& part, const Dimensions& whole);
/// A slice of `length` along `axis`; its backward pads with zeros to the whole.
[[nodiscard]] Tensor slice(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t length);
/// torch.split / chunk into parts of these lengths along the last axis; the backward concatenates.
[[nodiscard]] Tensors split(Autograd& torch, const Tensor& x, std::size_t axis,
                            const std::vector<std::int64_t>& lengths);
/// Lengths of `count` slices as torch.chunk makes them: the last is shorter where they do not divide.
[[nodiscard]] std::vector<std::int64_t> chunks(std::int64_t length, std::int64_t count);
[[nodiscard]] Tensor unsqueeze(Autograd& torch, const Tensor& x, std::size_t axis);
/// Size-1 dimensions made `sizes` with stride 0.
[[nodiscard]] Tensor expand(Autograd& torch, const Tensor& x, Dimensions sizes);

// ---- copies -----------------------------------------------------------------------------------------------

[[nodiscard]] Tensor contiguous(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor clone(Autograd& torch, const Tensor& x);
/// x.to(type): the same tensor where it has that type already.
[[nodiscard]] Tensor to(Autograd& torch, const Tensor& x, DType type);
[[nodiscard]] Tensor cat(Autograd& torch, const Tensors& parts, std::size_t axis);

// ---- elementwise ------------------------------------------------------------------------------------------

/// The same memory under another layout, known to autograd as a view.
[[nodiscard]] Tensor alias(const Tensor& x, Layout layout);
/// A tensor that comes with the batch: it is there before the step and outlives it.
[[nodiscard]] Tensor of_batch(Dimensions sizes, DType type);
/// A new contiguous tensor.
[[nodiscard]] Tensor fresh(Autograd& torch, Dimensions sizes, DType type);
/// An elementwise result of x's sizes, type and order of strides.
[[nodiscard]] Tensor like(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor add(Autograd& torch, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor sub(Autograd& torch, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor mul(Autograd& torch, const Tensor& a, const Tensor& b);
/// Multiplication, division or addition with a number: nothing is kept. `backward_scales`: the gradient is
/// computed in new memory (multiplication), not passed through (addition).
[[nodiscard]] Tensor scale(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor add_number(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor neg(Autograd& torch, const Tensor& x);
[[nodiscard]] Tensor pow(Autograd& torch, const Tensor& x);       ///< x², keeps x
[[nodiscard]] Tensor rsqrt(Autograd& torch, const Tensor& x);     ///< keeps the result
[[nodiscard]] Tensor tanh(Autograd& torch, const Tensor& x);      ///< keeps the result
[[nodiscard]] Tensor relu(Autograd& torch, const Tensor& x);      ///< keeps the result
[[nodiscard]] Tensor silu(Autograd& torch, const Tensor& x);      ///< keeps x
[[nodiscard]] Tensor softplus(Autograd& torch, const Tensor& x);  ///< keeps x
[[nodiscard]] Tensor exp(Autograd& torch, const Tensor& x);       ///< keeps the result
[[nodiscard]] Tensor gelu(Autograd& torch, const Tensor& x);      ///< keeps x
/// torch.nn.functional.dropout in training: keeps a mask of one byte per element.
[[nodiscard]] Tensor dropout(Autograd& torch, const Tensor& x);

// ---- reductions and norms ---------------------------------------------------------------------------------

/// Mean over the last dimension, kept as size 1.
[[nodiscard]] Tensor mean(Autograd& torch, const Tensor& x);
/// x.any() of that many elements: its memory, made and freed.
void any(Autograd& torch, std::int64_t elements);
/// Softmax over the last dimension, computed and kept as `type`.
[[nodiscard]] Tensor softmax(Autograd& torch, const Tensor& x, DType type);
/// Over the last dimension; keeps the result.
[[nodiscard]] Tensor log_softmax(Autograd& torch, const Tensor& x);
/// torch.gather of one element of each row of x [..., n]: [..., 1]. The index, a view of the batch, is kept.
[[nodiscard]] Tensor gather_one(Autograd& torch, const Tensor& x);
/// Sum over the last dimension, which goes.
[[nodiscard]] Tensor sum_last(Autograd& torch, const Tensor& x);
/// a / b where b needs no gradient: keeps b.
[[nodiscard]] Tensor div_by_constant(Autograd& torch, const Tensor& a, const Tensor& b);
/// torch.nn.functional.layer_norm: keeps x, mean and reciprocal deviation in fp32.
[[nodiscard]] Tensor layer_norm(Autograd& torch, const Tensor& x, const Tensor* weight, const Tensor* bias);

// ---- matrix products --------------------------------------------------------------------------------------

/// What a product of [batch, rows, inner] and [batch, inner, columns] computes.
[[nodiscard]] Product product_of(std::int64_t rows, std::int64_t inner, std::int64_t columns, DType type,
                                 std::int64_t batch = 1);
/// torch.nn.functional.linear of x [..., in] with weight [out, in]; DeepSpeed may have replaced it.
[[nodiscard]] Tensor linear(Autograd& torch, const Tensor& x, const Tensor& weight,
                            const Tensor* bias = nullptr);
/// transformers' Conv1D: x [..., in] with weight [in, out].
[[nodiscard]] Tensor conv1d(Autograd& torch, const Tensor& x, const Tensor& weight, const Tensor& bias);
/// As PyTorch has it, or torch.matmul with the weight turned.
[[nodiscard]] Tensor plain_linear(Autograd& torch, const Tensor& x, const Tensor& weight,
                                  const Tensor* bias = nullptr);
/// torch.matmul of [b, h, m, k] and [b, h, k, n].
[[nodiscard]] Tensor matmul(Autograd& torch, const Tensor& a, const Tensor& b);

// ---- embedding and loss -----------------------------------------------------------------------------------

[[nodiscard]] Tensor embedding(Autograd& torch, const Tensor& weight, const Tensor& ids);
/// torch.nn.functional.cross_entropy of [T, V] fp32 logits: a scalar.
[[nodiscard]] Tensor cross_entropy(Autograd& torch, const Tensor& logits, const Tensor& labels);

}  // namespace zplan::symbolic
