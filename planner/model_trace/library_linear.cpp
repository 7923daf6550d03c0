// Linear layers over weights that HQQ, AWQ or torchao packed, as they run where adapters are trained. HQQ's
// and AWQ's are autograd functions written in Python, within which nothing is recorded; torchao's is written
// in operators that are.

#include "planner/model_trace/quantised_linear.h"

namespace zplan::symbolic {

namespace {

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
  if (node) {
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
    Autograd::connect(result, node);
  }
  return result;
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

/// Up to so many rows a kernel reads the packed weight itself, and adds eight partial sums in fp32.
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

Tensor unpacked_by_groups(Program& p, std::int64_t in, std::int64_t out) {
  Tensor wide = dequantised_by_groups(p, in * out);
  wide.layout = Layout::contiguous({out, in});
  return wide;
}

Tensor library_linear(Program& p, const Tensor& x, const Parameter& weight, const Tensor* bias) {
  switch (spec(p.training.quantization).library) {
    case PackedBy::hqq: return by_hqq(p, x, weight, bias);
    case PackedBy::awq: return by_awq(p, x, weight, bias);
    default: return by_torchao(p, x, weight, bias);
  }
}

}  // namespace zplan::symbolic
