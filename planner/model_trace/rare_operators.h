#pragma once
// PyTorch's operators that only some architectures call. Named and described as operators.h does it.

#include <cstdint>
#include <vector>

#include "planner/model_trace/autograd.h"

namespace zplan::symbolic {

/// x.select(axis, …): one entry along `axis`, which goes. Its backward pads with zeros to the whole.
[[nodiscard]] Tensor select(Autograd& torch, const Tensor& x, std::size_t axis);
/// x[..., [i], ...] along `axis`: a copy of one entry; keeps the index, which is made on the device.
[[nodiscard]] Tensor index_one(Autograd& torch, const Tensor& x, std::size_t axis);
/// x /= number, x *= number.
void scale_in_place(Autograd& torch, Tensor& x);
/// torch.stack((a, b), dim=-1).flatten(-2).
[[nodiscard]] Tensor interleave(Autograd& torch, const Tensor& a, const Tensor& b);
/// Complex numbers, as twice as many real ones, times those of a table: view_as_real(view_as_complex(x) ·
/// table).
[[nodiscard]] Tensor multiply_complex(Autograd& torch, const Tensor& x, const Tensor& table);
/// A new tensor whose slices along `axis` the parts are copied into, one after the other.
[[nodiscard]] Tensor fill(Autograd& torch, const Tensors& parts, std::size_t axis);
/// Bytes that CUB's one-pass scan takes beside its operands: two numbers of `size` for each tile and for each
/// thread of a warp, and 256 more. Source: CCCL 3.0 cub/device/dispatch/dispatch_scan.cuh.
[[nodiscard]] std::int64_t scan_memory(std::int64_t items, std::int64_t tile, std::int64_t size);
/// transformers' BloomGelu: its function keeps x and computes the slope anew.
[[nodiscard]] Tensor gelu_bloom(Autograd& torch, const Tensor& x);

}  // namespace zplan::symbolic
