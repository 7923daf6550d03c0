// Linear layers whose weights are packed by bitsandbytes, GPTQ, HQQ, AWQ or torchao, as they run where
// adapters are trained. bitsandbytes', HQQ's and AWQ's are autograd functions written in Python, within which
// PyTorch records nothing; torchao's consists of operators that it records.
// Source: bitsandbytes 0.50.2 nn/modules.py, autograd/_functions.py, backends/cuda/ops.py,
// backends/default/ops.py; compared with its own allocations (docs/activations.md).

#include <algorithm>

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

/// PackedProduct holds the sizes of a linear layer: rows of `in` features become rows of `out`.
struct PackedProduct {
  std::int64_t rows{}, in{}, out{};
  Dimensions given{}, result{};
  [[nodiscard]] std::int64_t count() const { return in * out; }  ///< elements of the weight
};

PackedProduct packed_product(const Tensor& x, std::int64_t out) {
  const std::int64_t in = x.layout.sizes.back();
  PackedProduct sizes{x.elements() / in, in, out, x.layout.sizes, x.layout.sizes};
  sizes.result.back() = out;
  return sizes;
}

PackedProduct packed_product(const Parameter& weight, const Tensor& x) {
  return packed_product(x, weight.tensor.elements() / x.layout.sizes.back());
}

/// Returns a new tensor of `count` elements.
Tensor numbers(Program& p, std::int64_t count, DType type) {
  return p.torch.make(Layout::contiguous({count}), type);
}

/// Records the product with a weight in `type`; with `backward`, the gradient of the input.
Tensor multiplied(Program& p, const PackedProduct& sizes, DType type, bool backward, bool biased = false) {
  p.torch.multiply(biased, backward ? product_of(sizes.rows, sizes.out, sizes.in, type)
                                    : product_of(sizes.rows, sizes.in, sizes.out, type));
  Tensor result = p.torch.make(Layout::contiguous(backward ? sizes.given : sizes.result), type);
  p.torch.drop_kernel();
  return result;
}

// ---- 4 bits -----------------------------------------------------------------------------------------------

/// The scales of a weight in fp32, where they are packed themselves.
Tensor unpacked_scales(Program& p, const PackedProduct& sizes) {
  const QuantizationSpec& about = spec(p.training.quantization);
  if (!about.nested) return {};
  return numbers(p, share(Elements(sizes.count()), about.group).value, DType::fp32);
}

/// The weight in 16 bits: half a byte and its share of a scale are read. What was packed from fp16 is
/// unpacked to that first.
Tensor unpacked_weight(Program& p, const PackedProduct& sizes) {
  const std::int64_t count = sizes.count();
  p.torch.end_kernel();
  p.torch.read_only(Bytes(count / 2 + count / spec(p.training.quantization).group * 4));
  Tensor wide = numbers(p, count, DType::bf16);
  p.torch.end_kernel();
  if (!p.modules().unpacks_to_half || p.training.precision == Precision::fp16) return wide;
  return p.torch.kernel({&wide}, wide.layout, DType::bf16);
}

/// The weight in 16 bits for the backward: the offset is added to the scales in place.
Tensor dequantised(Program& p, const PackedProduct& sizes) {
  const Tensor scales = unpacked_scales(p, sizes);
  return unpacked_weight(p, sizes);
}

/// The forward's product: scales without and with their offset live until it is there.
Tensor product_of_four_bits(Program& p, const PackedProduct& sizes, bool biased) {
  const Tensor scales = unpacked_scales(p, sizes);
  const Tensor shifted = unpacked_scales(p, sizes);
  const Tensor wide = unpacked_weight(p, sizes);
  return multiplied(p, sizes, DType::bf16, false, biased);
}

/// Kept is what MatMul4Bit's context keeps: its input and a transposed view of the packed weight, which at
/// ZeRO-3 also keeps the memory that the weight was gathered into.
struct Kept {
  Tensor input;
  std::shared_ptr<Storage> weight;
};

/// Returns what a layer's context keeps of its input; layers that read one input keep it once.
Tensor kept_input(Program& p, const Tensor& x) {
  if (!p.modules().packed_keeps_input) return {};
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
  const PackedProduct sizes = packed_product(x, out);
  const auto node = p.torch.node({&x});
  Tensor result = product_of_four_bits(p, sizes, biased);
  if (node) {
    node->attribute = std::make_shared<Kept>(
        Kept{kept_input(p, x), hooks_modules(p) ? p.torch.recorder().keep_parameter(weight.index)
                                                : std::shared_ptr<Storage>{}});
    node->backward = [&p, sizes](Tensors&) {
      const Tensor wide = dequantised(p, sizes);
      return Tensors{multiplied(p, sizes, DType::bf16, true)};
    };
    Autograd::connect(result, node);
  }
  return to(p.torch, result, given.type);
}

// ---- 8 bits -----------------------------------------------------------------------------------------------

/// Which columns have outliers is found from |x| in fp16; none are (a plan cannot know the data).
void find_outliers(Program& p, const PackedProduct& sizes) {
  Tensor outliers;
  {
    const Tensor magnitudes = numbers(p, sizes.rows * sizes.in, DType::bf16);
    outliers = numbers(p, sizes.rows * sizes.in, DType::boolean);
  }
  any(p.torch, sizes.rows * sizes.in);
  if (sizes.rows > 1) {
    const Tensor zero = numbers(p, 1, DType::uint8);
  }
}

/// The product of x and the weight, both in 8 bits, in the input's type.
Tensor product_of_bytes(Program& p, const PackedProduct& sizes, DType type) {
  const bool half = type == DType::bf16 && p.training.precision == Precision::fp16;
  Tensor scales, bytes;
  {
    const Tensor narrow = half ? Tensor{} : numbers(p, sizes.rows * sizes.in, DType::bf16);
    scales = numbers(p, sizes.rows, DType::fp32);
    bytes = numbers(p, sizes.rows * sizes.in, DType::uint8);
    find_outliers(p, sizes);
  }
  p.torch.end_kernel();
  const Tensor sums = numbers(p, sizes.rows * sizes.out, DType::int32);
  p.torch.compute(product_of(sizes.rows, sizes.in, sizes.out, DType::uint8));
  p.torch.read(sums);
  if (half) return p.torch.make(Layout::contiguous(sizes.result), DType::bf16);
  const Tensor narrow = numbers(p, sizes.rows * sizes.out, DType::bf16);
  return p.torch.make(Layout::contiguous(sizes.result), type);
}

/// Linear8bitLt keeps its input as an attribute of the function's context: no checkpointing drops it, and it
/// lives as long as the graph.
Tensor eight_bits(Program& p, const Tensor& x, const Parameter& weight) {
  const PackedProduct sizes = packed_product(weight, x);
  const auto node = p.torch.node({&x});
  Tensor result = product_of_bytes(p, sizes, x.type);
  if (!node) return result;
  node->attribute = std::make_shared<Tensor>(x.detached());
  node->backward = [&p, sizes, type = x.type](Tensors& gradients) {
    const Tensor rows = contiguous(p.torch, gradients[0]);
    const Tensor wide = numbers(p, sizes.count(), type);
    { const Tensor scales = numbers(p, sizes.out, DType::fp32); }
    p.torch.end_kernel();
    return Tensors{multiplied(p, sizes, type, true)};
  };
  return Autograd::connected(result, node);
}

// ---- GPTQ -------------------------------------------------------------------------------------------------

/// Packed numbers as they are unpacked by shifts: 32-bit words of one number each, then small integers, of
/// which the bits that are others' are cleared.
Tensor unpacked(Program& p, std::int64_t count, DType type) {
  p.torch.end_kernel();
  p.torch.read_only(Bytes(spec(p.training.quantization).bits == 8 ? count : count / 2));
  const Tensor words = numbers(p, count, DType::int32);
  p.torch.end_kernel();
  p.torch.read(words);
  Tensor result = numbers(p, count, type);
  p.torch.change(result);
  return result;
}

/// Returns the type that numbers are unpacked to; of 8 bits it has 16, which bf16 stands for.
DType unpacked_type(const Program& p) {
  return spec(p.training.quantization).bits == 8 ? DType::bf16 : DType::uint8;
}

/// Zero points, one added to each.
Tensor zero_points(Program& p, const PackedProduct& sizes) {
  const std::int64_t groups = share(Elements(sizes.in), spec(p.training.quantization).group).value;
  const std::int64_t count = groups * sizes.out;
  const Tensor stored = unpacked(p, count, unpacked_type(p));
  return numbers(p, count, unpacked_type(p));
}

/// The weight in fp16, [in, out], by operators of PyTorch: scales · (weight − zero points).
Tensor dequantised_groups(Program& p, const PackedProduct& sizes) {
  const std::int64_t count = sizes.count();
  const Tensor weight = unpacked(p, count, unpacked_type(p));
  p.torch.read(weight);
  const Tensor difference = numbers(p, count, unpacked_type(p));
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
  const PackedProduct sizes = packed_product(weight, x);
  const Tensor zeros = zero_points(p, sizes);
  Tensor wide = dequantised_groups(p, sizes);
  wide.layout = wide.layout.transposed(0, 1);
  const Tensor rows = reshape(p.torch, x, {sizes.rows, sizes.in});
  const Tensor result = view(p.torch, plain_linear(p.torch, rows, wide), sizes.result);
  return bias != nullptr ? add(p.torch, result, *bias) : result;
}

/// The 8-bit weight in fp32: bytes times their row's scale, and that times a constant. Source: bitsandbytes
/// 0.50.2 _ops.py int8_vectorwise_dequant.
Tensor dequantised_rows(Program& p, const PackedProduct& sizes) {
  constexpr std::int64_t kScale = 4;
  p.torch.end_kernel();
  p.torch.read_only(Bytes(sizes.count() + sizes.out * kScale));
  const Tensor scaled = numbers(p, sizes.count(), DType::fp32);
  p.torch.end_kernel();
  return p.torch.kernel({&scaled}, scaled.layout, DType::fp32);
}

// ---- HQQ --------------------------------------------------------------------------------------------------

/// One half of the numbers that bytes hold: masked, shifted where they are the upper ones, copied into place.
void unpack_half(Program& p, std::int64_t bytes, bool upper) {
  p.torch.end_kernel();
  p.torch.read_only(Bytes(bytes));
  Tensor part = numbers(p, bytes, DType::uint8);
  if (upper) part = p.torch.kernel({&part}, part.layout, DType::uint8);
  p.torch.end_kernel();
  p.torch.copy(part);
}

/// Quantizer.dequantize: numbers unpacked into 16 bits, less their zero points, times their scales, of which
/// the numbers themselves live as long as the call. Source: hqq 0.2.8 core/quantize.py, core/bitpack.py
/// unpack_4bit_u8.
Tensor dequantised_by_groups(Program& p, std::int64_t count) {
  const Tensor wide = numbers(p, count, DType::bf16);
  p.torch.drop_kernel();
  unpack_half(p, count / 2, true);
  unpack_half(p, count / 2, false);
  const Tensor shifted = p.torch.kernel({&wide}, wide.layout, DType::bf16);
  return p.torch.kernel({&shifted}, wide.layout, DType::bf16);
}

/// HQQMatmulNoCacheMul: the weight is made for the forward and again for the backward, and the input is
/// saved, which no gradient needs. Under autocast an fp32 input is narrowed for the product; without it
/// PyTorch refuses one. Source: hqq 0.2.8 core/quantize.py, whose default backend this is.
Tensor by_hqq(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias) {
  const PackedProduct sizes = packed_product(weight, x);
  const auto node = p.torch.node({&x});
  Saved kept;
  Tensor result;
  {
    const Tensor wide = dequantised_by_groups(p, sizes.count());
    const Tensor narrow = x.type == DType::bf16 ? Tensor{} : p.torch.kernel({&x}, x.layout, DType::bf16);
    result = multiplied(p, sizes, DType::bf16, false);
  }
  if (bias != nullptr) p.torch.change(result);
  if (!node) return result;
  kept = p.torch.save(x);
  node->backward = [&p, sizes, kept, type = x.type](Tensors&) {
    const Tensor held = kept.get();
    Tensor gradient;
    {
      const Tensor wide = dequantised_by_groups(p, sizes.count());
      gradient = multiplied(p, sizes, DType::bf16, true);
    }
    return Tensors{type == DType::bf16 ? gradient : p.torch.kernel({&gradient}, gradient.layout, type)};
  };
  return Autograd::connected(result, node);
}

// ---- AWQ --------------------------------------------------------------------------------------------------

/// The weight in 16 bits, by one kernel.
Tensor dequantised_by_kernel(Program& p, const PackedProduct& sizes) {
  p.torch.end_kernel();
  p.torch.read_only(Bytes(sizes.count() / 2 + sizes.count() / spec(Quantization::awq).group * 5 / 2));
  Tensor wide = numbers(p, sizes.count(), DType::bf16);
  p.torch.end_kernel();
  return wide;
}

/// Up to kPackedRows rows one kernel reads the packed weight itself and adds kPartialSums partial sums in
/// fp32.
constexpr std::int64_t kPackedRows = 1024, kPartialSums = 8;

Tensor awq_product(Program& p, const PackedProduct& sizes) {
  if (sizes.rows > kPackedRows) {
    const Tensor wide = dequantised_by_kernel(p, sizes);
    return multiplied(p, sizes, DType::bf16, false);
  }
  p.torch.end_kernel();
  const Tensor parts = numbers(p, kPartialSums * sizes.rows * sizes.out, DType::fp32);
  p.torch.compute(product_of(sizes.rows, sizes.in, sizes.out, DType::bf16));
  p.torch.end_kernel();
  return p.torch.kernel({&parts}, Layout::contiguous(sizes.result), DType::bf16);
}

/// AwqGEMMLinear, the layer that trains of those that transformers may choose (backends auto_trainable and
/// gemm): nothing but the packed weight is kept. Source: gptqmodel 7.7.0 nn_modules/qlinear/gemm_awq.py,
/// gptqmodel_ext/awq/quantization/gemm_cuda_gen.cu.
Tensor by_awq(Program& p, const Tensor& given, const Parameter& weight, const Tensor* bias) {
  const Tensor x = to(p.torch, given, DType::bf16);
  const PackedProduct sizes = packed_product(weight, x);
  const auto node = p.torch.node({&x});
  Tensor result = awq_product(p, sizes);
  if (bias != nullptr) result = p.torch.kernel({&result}, result.layout, DType::bf16);
  if (node) {
    node->backward = [&p, sizes](Tensors&) {
      const Tensor wide = dequantised_by_kernel(p, sizes);
      return Tensors{multiplied(p, sizes, DType::bf16, true)};
    };
    Autograd::connect(result, node);
  }
  return to(p.torch, result, given.type);
}

// ---- torchao ----------------------------------------------------------------------------------------------

/// Int8Tensor's linear: the numbers in 16 bits, which autograd keeps as it keeps every factor, and the rows
/// of the product scaled. Source: torchao 0.18.0 quantize_/workflows/int8/int8_tensor.py.
Tensor by_torchao(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias) {
  const PackedProduct sizes = packed_product(weight, x);
  const Tensor rows = reshape(p.torch, x, {sizes.rows, sizes.in});
  p.torch.end_kernel();
  p.torch.read_only(Bytes(sizes.count()));
  const Tensor wide = p.torch.make(Layout::contiguous({sizes.out, sizes.in}), x.type);
  p.torch.end_kernel();
  const Tensor product = plain_linear(p.torch, rows, wide);
  const Tensor scales = p.torch.make(Layout::contiguous({sizes.out}), product.type);
  const Tensor scaled = mul(p.torch, product, scales);
  if (bias != nullptr) p.torch.change(scaled);
  return view(p.torch, scaled, sizes.result);
}

}  // namespace

Tensor unpacked_base(Program& p, const Parameter& weight, std::int64_t in) {
  const std::int64_t out = weight.tensor.elements() / in;
  const QuantizationSpec& about = spec(p.training.quantization);
  const PackedProduct sizes{.rows = 0, .in = in, .out = out};
  Tensor wide = about.library == PackedBy::hqq ? dequantised_by_groups(p, sizes.count())
                : about.bits == 8              ? dequantised_rows(p, sizes)
                                               : dequantised(p, sizes);
  wide.layout = Layout::contiguous({out, in});
  return wide;
}

Tensor packed_linear(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias) {
  const QuantizationSpec& about = spec(p.training.quantization);
  switch (about.library) {
    case PackedBy::gptq: return by_groups(p, x, weight, bias);
    case PackedBy::hqq: return by_hqq(p, x, weight, bias);
    case PackedBy::awq: return by_awq(p, x, weight, bias);
    case PackedBy::torchao:
    case PackedBy::transformers: return by_torchao(p, x, weight, bias);
    case PackedBy::bitsandbytes: break;
  }
  if (about.bits == 8) return eight_bits(p, x, weight);
  return four_bits(p, x, weight, weight.tensor.elements() / x.layout.sizes.back(), bias != nullptr);
}

Tensor packed_joint_linear(Program& p, const Tensor& x, const Parameter& first, std::int64_t out,
                           bool biased) {
  return four_bits(p, x, first, out, biased);
}

}  // namespace zplan::symbolic
