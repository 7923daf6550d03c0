// Norms as the architectures write them.
// Source: transformers 5.23 models/<architecture>/modeling_<architecture>.py.

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

Tensor mean_square(Program& p, const Tensor& x) {
  const Tensor squares = pow(p.torch, x);
  return mean(p.torch, squares);
}

Tensor reciprocal_root(Program& p, const Tensor& variance) {
  const Tensor shifted = add_number(p.torch, variance);
  return rsqrt(p.torch, shifted);
}

namespace {

/// LlamaRMSNorm: weight * (x32 * rsqrt(mean(x32²) + ε)).to(x's type).
Tensor rms_norm(Program& p, const Tensor& weight, const Tensor& x, NormForm kind) {
  Tensor variance;  // freed behind `hidden`, as Python frees its locals
  Tensor hidden = to(p.torch, x, DType::fp32);
  variance = mean_square(p, hidden);
  {
    const Tensor root = reciprocal_root(p, variance);
    hidden = mul(p.torch, hidden, root);
  }
  if (kind == NormForm::wide) return to(p.torch, mul(p.torch, weight, hidden), x.type);
  const Tensor narrow = to(p.torch, hidden, x.type);
  return mul(p.torch, weight, narrow);
}

/// GemmaRMSNorm: (x32 * rsqrt(mean(x32²) + ε)) * (1 + weight32), then x's type.
Tensor rms_norm_of_one_more(Program& p, const Tensor& weight, const Tensor& x) {
  Tensor output;
  {
    const Tensor wide = to(p.torch, x, DType::fp32);
    Tensor root;
    {
      Tensor shifted;
      {
        const Tensor variance = mean_square(p, wide);
        shifted = add_number(p.torch, variance);
      }
      root = rsqrt(p.torch, shifted);
    }
    output = mul(p.torch, wide, root);
  }
  {
    Tensor factor = to(p.torch, weight, DType::fp32);
    factor = add_number(p.torch, factor);
    output = mul(p.torch, output, factor);
  }
  return to(p.torch, output, x.type);
}

/// CohereLayerNorm.
Tensor layer_norm_by_parts(Program& p, const Tensor& weight, const Tensor& x) {
  Tensor hidden = to(p.torch, x, DType::fp32);
  const Tensor middle = mean(p.torch, hidden);
  Tensor variance;
  {
    Tensor squares;
    {
      const Tensor centred = sub(p.torch, hidden, middle);
      squares = pow(p.torch, centred);
    }
    variance = mean(p.torch, squares);
  }
  {
    const Tensor centred = sub(p.torch, hidden, middle);
    const Tensor root = reciprocal_root(p, variance);
    hidden = mul(p.torch, centred, root);
  }
  {
    const Tensor wide = to(p.torch, weight, DType::fp32);
    hidden = mul(p.torch, wide, hidden);
  }
  return to(p.torch, hidden, x.type);
}

/// OLMo's LayerNorm has no parameters and runs in fp32.
Tensor bare_layer_norm(Program& p, const Tensor& x) {
  Tensor normed;
  {
    const Tensor wide = to(p.torch, x, DType::fp32);
    normed = layer_norm(p.torch, wide, nullptr, nullptr);
  }
  return to(p.torch, normed, x.type);
}

/// NemotronLayerNorm1P: casts its operands under autocast, which it then leaves.
Tensor layer_norm_of_one_more(Program& p, const Tensor& weight, const Tensor& bias, const Tensor& x) {
  const DType type = p.torch.autocast().enabled() ? DType::bf16 : x.type;
  Tensors narrow;
  {
    const Tensor factor = add_number(p.torch, weight);
    for (const Tensor* each : {&x, &factor, &bias}) narrow.push_back(to(p.torch, *each, type));
  }
  const Autocast::Context without(p.torch.autocast(), false);
  return layer_norm(p.torch, narrow[0], &narrow[1], &narrow[2]);
}

}  // namespace

Tensor norm_of_transformers(Program& p, const NormCall& call) {
  const Tensor& weight = call.weight.tensor;
  const Tensor& x = call.x;
  const Tensor* bias = call.bias != nullptr ? &call.bias->tensor : nullptr;
  switch (call.form) {
    case NormForm::narrow:
    case NormForm::wide: return rms_norm(p, weight, x, call.form);
    case NormForm::one_more: return rms_norm_of_one_more(p, weight, x);
    case NormForm::layer: return layer_norm(p.torch, x, &weight, bias);
    case NormForm::layer_by_parts: return layer_norm_by_parts(p, weight, x);
    case NormForm::layer_one_more: return layer_norm_of_one_more(p, weight, *bias, x);
  }
  return {};
}

Tensor normalise(Program& p, const Parameters& of, std::string_view module, const Tensor& x) {
  return normalise(p, of, module, x, p.operators().norm);
}

Tensor normalise(Program& p, const Parameters& of, std::string_view module, const Tensor& x, NormForm form) {
  const std::string name(module);
  const Parameter* weight = of.find(name + ".weight");
  if (weight == nullptr)
    return hooked(p, {.name = name}, x, [&](const Tensor& input) { return bare_layer_norm(p, input); });
  const Parameter* bias = of.find(name + ".bias");
  const auto own = kernels_of(p).norm;
  const auto norm = own != nullptr ? own : norm_of_transformers;
  // A fused one reads and writes once; its backward reads the input again.
  const bool composed = form == NormForm::narrow || form == NormForm::wide || form == NormForm::one_more;
  return hooked(p, {weight, bias}, x, [&](const Tensor& input) {
    return p.torch.fused(composed && fuses_kernels(p), input.bytes() * 2, input.bytes() * 3, [&] {
      return norm(p, {*weight, bias, form, input});
    });
  });
}

}  // namespace zplan::symbolic
