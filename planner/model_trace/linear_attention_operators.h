#pragma once
// PyTorch's operators that linear attention calls. Named and described as operators.h does it.

#include <cstdint>

#include "planner/model_trace/autograd.h"

namespace zplan::symbolic {

/// Tokens that the gated delta rule computes side by side.
inline constexpr std::int64_t kDeltaChunk = 64;

/// What the gated delta rule is computed from: [b, s, heads, d], decays and betas [b, s, heads].
struct DeltaRuleInputs {
  const Tensor &query, &key, &value, &decay, &beta;
};

/// torch.nn.functional.conv1d of x [b, D, s] with weight [D, 1, k], a group for each channel, padded by k − 1
/// on both sides: [b, D, s + k − 1]. Keeps x and the weight; copies an x that is not contiguous, in the
/// backward too. Source: torch 2.11 aten/src/ATen/native/Convolution.cpp (ConvBackend::CudaDepthwise2d).
[[nodiscard]] Tensor depthwise_convolution(Autograd& torch, const Tensor& x, const Tensor& weight);
/// x.to(type, memory_format=torch.contiguous_format): the same tensor where it has that type already.
[[nodiscard]] Tensor to_contiguous(Autograd& torch, const Tensor& x, DType type);
/// torch.nn.functional.pad behind the last entries along `axis`; a copy where nothing is added.
[[nodiscard]] Tensor pad(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t more);
/// x.repeat_interleave(times, dim=axis).
[[nodiscard]] Tensor repeat_interleave(Autograd& torch, const Tensor& x, std::size_t axis,
                                       std::int64_t times);
/// x.cumsum along the last dimension of floats; keeps nothing.
[[nodiscard]] Tensor running_sum(Autograd& torch, const Tensor& x);
/// torch.matmul of [..., m, k] and [..., k, n] of the same leading sizes, whose strides cuBLAS takes.
[[nodiscard]] Tensor batched_matmul(Autograd& torch, const Tensor& a, const Tensor& b);
/// torch.linalg.solve_triangular of a [..., n, n], lower and with ones on its diagonal, and b [..., n, m]:
/// column by column in memory. Keeps a and the result. Batched cuBLAS is given its matrices by address.
/// Source: torch 2.11 aten/src/ATen/native/cuda/linalg/BatchLinearAlgebra.cpp triangular_solve_kernel,
/// native/BatchLinearAlgebra.cpp linalg_solve_triangular, FunctionsManual.cpp.
[[nodiscard]] Tensor solve_triangular(Autograd& torch, const Tensor& a, const Tensor& b);
/// `length` entries along `axis`, all of them too: the backward pads with zeros to the whole.
[[nodiscard]] Tensor part(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t length);
/// x[..., i, ...] = value, of a slice of x: x becomes the node's output (CopySlices), whose backward copies
/// the gradient of all of x.
void assign(Autograd& torch, Tensor& x, const Tensor& value);

}  // namespace zplan::symbolic
