#pragma once
// PyTorch's operators that image-text models call. Named and described as operators.h does it.

#include <cstdint>
#include <vector>

#include "planner/model_trace/autograd.h"

namespace zplan::symbolic {

/// A convolution whose steps are as large as its kernel: a product over patches. `result`: the layout of what
/// it makes. Keeps x for the weight's gradient. cuDNN's own workspace is not counted.
[[nodiscard]] Tensor patch_convolution(Autograd& torch, const Tensor& x, const Tensor& weight,
                                       const Tensor* bias, Layout result);
/// x.unbind(axis): views; the backward stacks their gradients.
[[nodiscard]] Tensors unbind(Autograd& torch, const Tensor& x, std::size_t axis);
/// torch.split along `axis` whose parts are used one by one: the same memory; the backward concatenates
/// gradients.
[[nodiscard]] Tensor as_parts(Autograd& torch, const Tensor& x);
/// x.masked_scatter(mask, source): a copy of x with rows of the source; keeps the mask, of one value a row.
/// Its backward finds the places of the source's gradient element by element.
/// Source: torch 2.11 aten/src/ATen/native/cuda/{IndexKernel,Indexing,Nonzero}.cu, tools/autograd.
[[nodiscard]] Tensor masked_scatter(Autograd& torch, const Tensor& x, const Tensor& mask,
                                    const Tensor& source);
/// torch.nn.functional.unfold of a grid of patches [rows · columns, h] into squares of `side` patches:
/// [squares, h · side²] seen by square. Keeps nothing; copies its input, and its gradient in the backward.
/// Source: torch 2.11 aten/src/ATen/native/cuda/{Im2Col,Col2Im}.cu.
[[nodiscard]] Tensor unfold(Autograd& torch, const Tensor& x, std::int64_t side);
/// x.clone() whose rows of image tokens have the features added, in x's type: x[at] = x[at] + features. Keeps
/// the mask, which gives places again each time.
[[nodiscard]] Tensor add_at_rows(Autograd& torch, const Tensor& x, const Tensor& mask,
                                 const Tensor& features);
/// torch.nn.AvgPool2d over [b, c, s, s] to `side` along each side; keeps x.
[[nodiscard]] Tensor average_pool(Autograd& torch, const Tensor& x, std::int64_t side);

}  // namespace zplan::symbolic
