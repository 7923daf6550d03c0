#pragma once
// PyTorch's operators that mixtures of experts are routed with. Named and described as operators.h does it.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/model_trace/autograd.h"

namespace zplan::symbolic {

struct Chosen {
  Tensor values, indices;
};

/// torch.topk along the last dimension; keeps the indices. Source: torch 2.11
/// aten/src/ATen/native/cuda/TensorTopK.cu, whose one-block kernels take no memory of their own: those run
/// for fewer than 400 scores.
[[nodiscard]] Chosen topk(Autograd& torch, const Tensor& x, std::int64_t k);
/// x.max(dim=-1): keeps the indices.
[[nodiscard]] Chosen max(Autograd& torch, const Tensor& x);
/// torch.sort of a vector of whole numbers: values, and where they stood.
[[nodiscard]] Chosen sort(Autograd& torch, const Tensor& x);

/// x[indices] along the first dimension; keeps the indices. Its backward sorts them.
[[nodiscard]] Tensor index(Autograd& torch, const Tensor& x, const Tensor& indices);
/// x.gather(-1, indices); keeps the indices.
[[nodiscard]] Tensor gather(Autograd& torch, const Tensor& x, const Tensor& indices);
/// x.masked_fill(mask, number); keeps the mask.
[[nodiscard]] Tensor masked_fill(Autograd& torch, const Tensor& x, const Tensor& mask);
/// torch.cumsum of a vector of at most 1920 whole numbers, one block of the kernel's.
[[nodiscard]] Tensor cumsum(Autograd& torch, const Tensor& x);
/// Whole numbers that depend on no gradient: arange, empty_like, comparisons, histc, x // n.
[[nodiscard]] Tensor numbers(Autograd& torch, Dimensions sizes, DType type);

/// x.sum(dim=axis, keepdim); only views of the gradient in the backward.
[[nodiscard]] Tensor sum(Autograd& torch, const Tensor& x, std::size_t axis, bool keep);
/// a / b in new memory; keeps both.
[[nodiscard]] Tensor div(Autograd& torch, const Tensor& a, const Tensor& b);
/// a /= b; keeps b and, for its gradient, a copy of a as it was.
void div_in_place(Autograd& torch, Tensor& a, const Tensor& b);
/// a += b, where b need not be kept.
void add_in_place(Autograd& torch, Tensor& a, const Tensor& b);
[[nodiscard]] Tensor sigmoid(Autograd& torch, const Tensor& x);  ///< keeps the result
/// x.clamp(low, high); keeps x. `sides`: how many of the two are given.
[[nodiscard]] Tensor clamp(Autograd& torch, const Tensor& x, int sides);
/// x[..., start::step]: its backward pads with zeros to the whole.
[[nodiscard]] Tensor strided(Autograd& torch, const Tensor& x, std::int64_t step);

/// torch.nn.functional.grouped_mm of x [S, in] and weights [E, in, out], rows dealt out at `offsets`: keeps x
/// for the weights' gradient, the weights for x's, and the offsets. `parameter`: of which parameter the
/// weights are a view whose keeping is to be told (Recorder::keep_parameter).
[[nodiscard]] Tensor grouped_mm(Autograd& torch, const Tensor& x, const Tensor& weights,
                                const Tensor& offsets, std::optional<std::int32_t> parameter = {});

/// torch.baddbmm(base, left, right, alpha=…) of a frozen base [E, m, n], left [E, m, k] and right [E, k, n];
/// keeps left and right. Operands whose strides cuBLAS cannot take are copied for the product.
[[nodiscard]] Tensor baddbmm(Autograd& torch, const Tensor& base, const Tensor& left, const Tensor& right);

/// index_put with accumulation: rows are sorted by where they go, so that sums do not depend on chance.
/// Source: torch 2.11 aten/src/ATen/native/cuda/Indexing.cu index_put_with_sort_kernel.
void accumulate_rows(Autograd& torch, std::int64_t rows, std::int64_t into);

/// Temporary memory of CUB's radix sort of `items` pairs of two 64-bit numbers whose keys have `bits` bits.
/// Source: CCCL 3.0 (CUDA 13.0) cub/device/dispatch/dispatch_radix_sort.cuh, invoke_onesweep, and its tuning
/// for compute capability 8.0; 256 bins per pass.
[[nodiscard]] Bytes radix_sort_memory(std::int64_t items, int bits);

}  // namespace zplan::symbolic
