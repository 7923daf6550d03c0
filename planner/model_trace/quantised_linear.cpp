// Linear layers whose weights are packed. The forward and backward of bitsandbytes' are autograd functions
// written in Python, within which nothing is recorded: what they make and free stands here as they run.
// Source: bitsandbytes 0.50.2 nn/modules.py, autograd/_functions.py, backends/cuda/ops.py,
// backends/default/ops.py; compared with its own allocations (docs/activations.md).

#include "planner/model_trace/quantised_linear.h"

#include <algorithm>

namespace zplan::symbolic {

namespace {

struct ProductSizes {
  std::int64_t rows{}, in{}, out{};
  std::vector<std::int64_t> result{};
};

ProductSizes sizes_of(const Tensor& x, std::int64_t out) {
  const std::int64_t in = x.layout.sizes.back();
  ProductSizes sizes{x.elements() / in, in, out, x.layout.sizes};
  sizes.result.back() = out;
  return sizes;
}

ProductSizes sizes_of(const Parameter& weight, const Tensor& x) {
  return sizes_of(x, weight.tensor.elements() / x.layout.sizes.back());
}

Tensor plain(Program& p, std::int64_t elements, DType type) {
  return p.torch.make(Layout::contiguous({elements}), type);
}

// ---- 4 bits -----------------------------------------------------------------------------------------------

constexpr std::int64_t kBlock = 64;  ///< weights that share one scale

/// The scales of a weight in fp32, where they are packed themselves.
Tensor unpacked_scales(Program& p, const ProductSizes& sizes) {
  if (p.training.quantization != Quantization::nf4_double) return {};
  return plain(p, (sizes.in * sizes.out + kBlock - 1) / kBlock, DType::fp32);
}

/// The weight in 16 bits: half a byte and its share of a scale are read. What was packed from fp16 is
/// unpacked to that first.
Tensor unpacked_weight(Program& p, const ProductSizes& sizes) {
  const std::int64_t count = sizes.in * sizes.out;
  p.torch.end_kernel();
  p.torch.read_only(Bytes(count / 2 + count / kBlock * 4));
  Tensor wide = plain(p, count, DType::bf16);
  p.torch.end_kernel();
  if (!spec(p.training.modules).unpacks_to_half || p.training.precision == Precision::fp16) return wide;
  return p.torch.kernel({&wide}, wide.layout, DType::bf16);
}

/// The weight in 16 bits for the backward: the offset is added to the scales in place.
Tensor dequantised(Program& p, const ProductSizes& sizes) {
  const Tensor scales = unpacked_scales(p, sizes);
  return unpacked_weight(p, sizes);
}

/// The forward's product: scales without and with their offset live until it is there.
Tensor product_of_four_bits(Program& p, const ProductSizes& sizes, bool biased) {
  const Tensor scales = unpacked_scales(p, sizes);
  const Tensor shifted = unpacked_scales(p, sizes);
  const Tensor wide = unpacked_weight(p, sizes);
  p.torch.multiply(biased, product_of(sizes.rows, sizes.in, sizes.out, DType::bf16));
  Tensor result = p.torch.make(Layout::contiguous(sizes.result), DType::bf16);
  p.torch.drop_kernel();
  return result;
}

/// What MatMul4Bit's context holds on to: of the packed weight a transposed view, and with it the memory that
/// ZeRO-3 gathered it into, whatever becomes of the parameter.
struct Kept {
  Tensor input;
  std::shared_ptr<Storage> weight;
};

/// What a layer's context keeps of its input, once for layers that read the same.
Tensor kept_input(Program& p, const Tensor& x) {
  if (!spec(p.training.modules).packed_keeps_input) return {};
  if (p.strategy.checkpointing != Checkpointing::none) return x.detached();
  Tensors& kept = p.kept_inputs[p.torch.recorder().current()];
  const bool known =
      std::any_of(kept.begin(), kept.end(), [&](const Tensor& each) { return each.storage == x.storage; });
  if (!known) kept.push_back(x.detached());
  return x.detached();
}

/// Linear4bit: the product runs in the compute type, 16 bits, and returns in the input's. Nothing but the
/// packed weight is kept. (For few tokens a kernel of bitsandbytes reads the packed weight itself; not
/// modelled.)
Tensor four_bits(Program& p, const Tensor& given, const Parameter& weight, std::int64_t out, bool biased) {
  const Tensor x = to(p.torch, given, DType::bf16);
  const ProductSizes sizes = sizes_of(x, out);
  const auto node = p.torch.node({&x});
  Tensor result = product_of_four_bits(p, sizes, biased);
  if (node) {
    node->attribute = std::make_shared<Kept>(
        Kept{kept_input(p, x), hooks_modules(p) ? p.torch.recorder().keep_parameter(weight.index)
                                                : std::shared_ptr<Storage>{}});
    node->backward = [&p, sizes, shape = x.layout.sizes](Tensors&) {
      const Tensor wide = dequantised(p, sizes);
      p.torch.multiply(false, product_of(sizes.rows, sizes.out, sizes.in, DType::bf16));
      Tensor gradient = p.torch.make(Layout::contiguous(shape), DType::bf16);
      p.torch.drop_kernel();
      return Tensors{gradient};
    };
    Autograd::connect(result, node);
  }
  return to(p.torch, result, given.type);
}

// ---- 8 bits -----------------------------------------------------------------------------------------------

/// Which columns have outliers is found from |x| in fp16; none are (a plan cannot know the data).
void find_outliers(Program& p, const ProductSizes& sizes) {
  Tensor outliers;
  {
    const Tensor magnitudes = plain(p, sizes.rows * sizes.in, DType::bf16);
    outliers = plain(p, sizes.rows * sizes.in, DType::boolean);
  }
  any(p.torch, sizes.rows * sizes.in);
  if (sizes.rows > 1) {
    const Tensor zero = plain(p, 1, DType::uint8);
  }
}

/// The product of x and the weight, both in 8 bits, in the input's type.
Tensor product_of_bytes(Program& p, const ProductSizes& sizes, DType type) {
  const bool half = type == DType::bf16 && p.training.precision == Precision::fp16;
  Tensor scales, bytes;
  {
    const Tensor narrow = half ? Tensor{} : plain(p, sizes.rows * sizes.in, DType::bf16);
    scales = plain(p, sizes.rows, DType::fp32);
    bytes = plain(p, sizes.rows * sizes.in, DType::uint8);
    find_outliers(p, sizes);
  }
  p.torch.end_kernel();
  const Tensor sums = plain(p, sizes.rows * sizes.out, DType::int32);
  p.torch.compute(product_of(sizes.rows, sizes.in, sizes.out, DType::uint8));
  p.torch.read(sums);
  if (half) return p.torch.make(Layout::contiguous(sizes.result), DType::bf16);
  const Tensor narrow = plain(p, sizes.rows * sizes.out, DType::bf16);
  return p.torch.make(Layout::contiguous(sizes.result), type);
}

/// Linear8bitLt keeps its input as an attribute of the function's context: no checkpointing drops it, and it
/// lives as long as the graph.
Tensor eight_bits(Program& p, const Tensor& x, const Parameter& weight) {
  const ProductSizes sizes = sizes_of(weight, x);
  const auto node = p.torch.node({&x});
  Tensor result = product_of_bytes(p, sizes, x.type);
  if (node) {
    node->attribute = std::make_shared<Tensor>(x.detached());
    node->backward = [&p, sizes, shape = x.layout.sizes, type = x.type](Tensors& gradients) {
      const Tensor rows = contiguous(p.torch, gradients[0]);
      const Tensor wide = plain(p, sizes.in * sizes.out, type);
      { const Tensor scales = plain(p, sizes.out, DType::fp32); }
      p.torch.end_kernel();
      p.torch.multiply(false, product_of(sizes.rows, sizes.out, sizes.in, type));
      Tensor gradient = p.torch.make(Layout::contiguous(shape), type);
      p.torch.drop_kernel();
      return Tensors{gradient};
    };
    Autograd::connect(result, node);
  }
  return result;
}

// ---- GPTQ -------------------------------------------------------------------------------------------------

/// Packed numbers as they are unpacked by shifts: 32-bit words of one number each, then small integers, of
/// which the bits that are others' are cleared.
Tensor unpacked(Program& p, std::int64_t count, DType type) {
  p.torch.end_kernel();
  p.torch.read_only(Bytes(p.training.quantization == Quantization::gptq_int8 ? count : count / 2));
  const Tensor words = plain(p, count, DType::int32);
  p.torch.end_kernel();
  p.torch.read(words);
  Tensor result = plain(p, count, type);
  p.torch.change(result);
  return result;
}

/// What eight bits are unpacked to has 16, as bf16 has.
DType unpacked_type(const Program& p) {
  return p.training.quantization == Quantization::gptq_int8 ? DType::bf16 : DType::uint8;
}

/// Zero points, one added to each.
Tensor zero_points(Program& p, const ProductSizes& sizes) {
  constexpr std::int64_t kGroup = 128;
  const std::int64_t count = (sizes.in + kGroup - 1) / kGroup * sizes.out;
  const Tensor stored = unpacked(p, count, unpacked_type(p));
  return plain(p, count, unpacked_type(p));
}

/// The weight in fp16, [in, out], by operators of PyTorch: scales · (weight − zero points).
Tensor dequantised_groups(Program& p, const ProductSizes& sizes) {
  const std::int64_t count = sizes.in * sizes.out;
  const Tensor weight = unpacked(p, count, unpacked_type(p));
  p.torch.read(weight);
  const Tensor difference = plain(p, count, unpacked_type(p));
  p.torch.end_kernel();
  p.torch.read(difference);
  Tensor wide = p.torch.make(Layout::contiguous({sizes.in, sizes.out}), DType::bf16);
  p.torch.end_kernel();
  return wide;
}

/// AutoGPTQ's layer for training dequantises the weight for every forward, and autograd keeps it for the
/// gradient of the input like any other factor: without checkpointing the whole model is there in 16 bits
/// again. Source: AutoGPTQ 0.7 nn_modules/qlinear/qlinear_cuda_old.py (its other kernels have no backward);
/// read only.
Tensor by_groups(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias) {
  const ProductSizes sizes = sizes_of(weight, x);
  const Tensor zeros = zero_points(p, sizes);
  Tensor wide = dequantised_groups(p, sizes);
  wide.layout = wide.layout.transposed(0, 1);
  const Tensor rows = reshape(p.torch, x, {sizes.rows, sizes.in});
  const Tensor result = view(p.torch, plain_linear(p.torch, rows, wide), sizes.result);
  return bias != nullptr ? add(p.torch, result, *bias) : result;
}

}  // namespace

Tensor unpacked_base(Program& p, const Parameter& weight, std::int64_t in) {
  const std::int64_t out = weight.tensor.elements() / in;
  if (p.training.quantization == Quantization::hqq) return unpacked_by_groups(p, in, out);
  Tensor wide = dequantised(p, {.rows = 0, .in = in, .out = out});
  wide.layout = Layout::contiguous({out, in});
  return wide;
}

Tensor packed_linear(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias) {
  const Quantization quantization = p.training.quantization;
  if (is_gptq(quantization)) return by_groups(p, x, weight, bias);
  if (quantization == Quantization::int8) return eight_bits(p, x, weight);
  if (!is_nf4(quantization)) return library_linear(p, x, weight, bias);
  return four_bits(p, x, weight, weight.tensor.elements() / x.layout.sizes.back(), bias != nullptr);
}

Tensor packed_joint_linear(Program& p, const Tensor& x, const Parameter& first, std::int64_t out,
                           bool biased) {
  return four_bits(p, x, first, out, biased);
}

}  // namespace zplan::symbolic
