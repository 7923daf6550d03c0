#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"
#include "planner/sharding/rank_model.h"

namespace zplan::symbolic {

namespace {

/// Returns the path of the module that holds the weight.
std::string path_of(const Parameter& weight) {
  const std::string& name = weight.about->name;
  return name.substr(0, name.rfind('.'));
}

bool packed(const Program& p, const Parameter& weight) { return is_packed(p.training, *weight.about); }
bool packed_by(const Program& p, const Parameter& weight, PackedBy library) {
  return packed(p, weight) && spec(p.training.quantization).library == library;
}

bool divided(const Program& p, const Parameter& weight) {
  return p.strategy.layout.tensor > 1 && weight.about->split != TensorParallelSplit::replicated;
}

/// True if the layer is transformers' Conv1D, whose weight is [in, out].
bool is_conv1d(const Program& p, const Parameter* bias) {
  return p.operators().linear == LinearForm::conv1d && bias != nullptr;
}

/// Records the product with a weight that transformers' tp_plan divides: "colwise" or "rowwise".
Tensor planned_product(Program& p, const Parameter& weight, const Tensor* bias, const Tensor& x,
                       bool by_rows) {
  if (by_rows) return summed(p.torch, TensorCall::row_output, linear(p.torch, x, weight.tensor, bias));
  return linear(p.torch, replicated_input(p.torch, TensorCall::column_input, x, false), weight.tensor, bias);
}

Tensor product(Program& p, const Parameter& weight, const Parameter* bias, const Tensor& x) {
  const Tensor* addend = bias != nullptr ? &bias->tensor : nullptr;
  if (packed(p, weight)) return packed_linear(p, x, weight, addend);
  if (divided(p, weight)) {
    const bool by_rows = weight.about->split == TensorParallelSplit::row;
    if (follows_plan(p)) return planned_product(p, weight, addend, x, by_rows);
    const Tensor result =
        divided_linear(p.torch, by_rows ? x : column_parallel_input(p.torch, x), weight.tensor, addend);
    if (by_rows) p.torch.recorder().communicate(TensorCall::row_output, result.bytes());
    return result;
  }
  const LinearForm form = p.operators().linear;
  if (is_conv1d(p, bias)) return conv1d(p.torch, x, weight.tensor, bias->tensor);
  // No torch.nn.functional.linear, in whose place ZeRO-3 puts its own; the head, which may be tied, is one.
  const TensorRole role = weight.about->role;
  const bool is_head = role == TensorRole::head || role == TensorRole::token_embedding;
  if (form == LinearForm::bias_apart && !is_head) {
    Tensor factor = weight.tensor;  // autograd keeps its transpose: a view
    if (p.torch.gathers_parameters()) factor.storage = p.torch.recorder().keep_parameter(weight.index);
    const Tensor product = plain_linear(p.torch, x, factor, nullptr);
    factor = {};
    return bias != nullptr ? add(p.torch, product, bias->tensor) : product;
  }
  return linear(p.torch, x, weight.tensor, addend);
}

/// torch.nn.functional.normalize(weight): divided by the norm of each row. autocast computes norm and
/// quotient in fp32. The gradient of the norm itself is left out for a trained head.
Tensor normalised(Program& p, const Tensor& weight) {
  Autograd& torch = p.torch;
  const DType type = torch.autocast().enabled() ? DType::fp32 : weight.type;
  const Tensor norms = torch.operate({}, Layout::contiguous({weight.size(0), 1}), type);
  const Tensor clamped = like(torch, norms);
  if (!weight.requires_gradient)
    return torch.operate({&weight}, Layout::contiguous({weight.size(0), weight.size(1)}), type);
  return div_by_constant(torch, to(torch, weight, type), clamped);
}

/// True for Baichuan 2's head. Source: baichuan-inc/Baichuan2-7B-Base modeling_baichuan.py NormHead.forward.
bool is_normalised_head(const Program& p, const Parameter& weight) {
  return p.operators().normalises_head && weight.about->role == TensorRole::head &&
         p.strategy.layout.tensor == 1;
}

Tensor base_layer(Program& p, const Parameters& of, const Parameter& weight, const Tensor& x) {
  if (is_normalised_head(p, weight))
    return hooked(p, {&weight}, x,
                  [&](const Tensor& input) { return linear(p.torch, input, normalised(p, weight.tensor)); });
  const Parameter* bias = of.find(path_of(weight) + ".bias");
  return hooked(p, {&weight, bias}, x, [&](const Tensor& input) { return product(p, weight, bias, input); });
}

/// LinearAdapter holds lora_A and lora_B of one weight, and DoRA's magnitudes.
struct LinearAdapter {
  const Parameter* down{};
  const Parameter* up{};
  const Parameter* magnitudes{};
};

LinearAdapter linear_adapter(const Parameters& of, const Parameter& weight) {
  const std::string path = path_of(weight);
  return {of.find(path + ".lora_A.default.weight"), of.find(path + ".lora_B.default.weight"),
          of.find(path + ".lora_magnitude_vector.default.weight")};
}

/// dropout(x): an identity where nothing is dropped.
Tensor dropped_input(Program& p, const LinearAdapter& adapter, const Tensor& x) {
  return hooked(p, {.name = "dropout of " + adapter.down->about->name}, x, [&](const Tensor& input) {
    return p.training.lora_dropout > 0 ? dropout(p.torch, input) : input;
  });
}

/// lora_A(x).
Tensor narrowed(Program& p, const LinearAdapter& adapter, const Tensor& x) {
  return hooked(p, {adapter.down}, x,
                [&](const Tensor& input) { return linear(p.torch, input, adapter.down->tensor); });
}

/// lora_B(x).
Tensor widened(Program& p, const LinearAdapter& adapter, const Tensor& x) {
  return hooked(p, {adapter.up}, x,
                [&](const Tensor& input) { return linear(p.torch, input, adapter.up->tensor); });
}

/// lora_B(lora_A(dropout(x))).
Tensor unscaled_low_rank(Program& p, const LinearAdapter& adapter, const Tensor& x) {
  Tensor down;
  {
    const Tensor dropped = dropped_input(p, adapter, x);
    down = narrowed(p, adapter, dropped);
  }
  return widened(p, adapter, down);
}

/// lora_B(lora_A(dropout(x))) * scaling.
Tensor low_rank(Program& p, const LinearAdapter& adapter, const Tensor& x) {
  const Tensor up = unscaled_low_rank(p, adapter, x);
  return scale(p.torch, up);
}

/// Records that the module around a layer reads the type of lora_A's weight.
void read_type(Program& p, const ModuleCall& module, const LinearAdapter& adapter) {
  if (!hooks_modules(p)) return;
  Recorder& recorder = p.torch.recorder();
  recorder.read_parameter(recorder.module_number({.name = module.name}), adapter.down->index);
}

/// Records that DoRA's module reads a parameter of a neighbouring module.
void read_from_magnitudes(Program& p, const LinearAdapter& adapter, const Parameter& read) {
  if (!hooks_modules(p)) return;
  Recorder& recorder = p.torch.recorder();
  recorder.read_parameter(recorder.module_number({.name = {}, .own = {adapter.magnitudes->index}}),
                          read.index);
}

/// Records the product of lora_B and lora_A, [out, in], by passing an identity matrix through both. Its graph
/// lives as long as it does.
Tensor weight_update(Program& p, const LinearAdapter& adapter) {
  read_from_magnitudes(p, adapter, *adapter.down);
  const std::int64_t in = adapter.down->tensor.size(1);
  const Tensor identity = fresh(p.torch, {in, in}, adapter.down->tensor.type);
  return transpose(p.torch, widened(p, adapter, narrowed(p, adapter, identity)), 0, 1);
}

/// Returns the base weight [out, in] in `type`, without a gradient.
Tensor base_weight(Program& p, const Parameter& weight, const Parameter* bias, const LinearAdapter& adapter,
                   DType type) {
  read_from_magnitudes(p, adapter, weight);
  const bool unpacks = packed(p, weight);
  const Tensor wide =
      unpacks ? unpacked_base(p, weight, adapter.down->tensor.size(1)) : weight.tensor.detached();
  const Tensor typed = to(p.torch, wide, type);
  return is_conv1d(p, bias) && !unpacks ? transpose(p.torch, typed, 0, 1) : typed;
}

/// Records the norm of each row of base weight and update.
Tensor row_norms(Program& p, const Tensor& weight, const Tensor& update) {
  Tensor sum;
  {
    const Tensor scaled = scale(p.torch, update.detached());
    sum = add(p.torch, weight, scaled);
  }
  return p.torch.kernel({&sum}, Layout::contiguous({weight.size(0)}), sum.type);
}

/// Records what DoRA adds to the base layer's output: (m/‖W + ΔW‖ − 1) · base + m/‖W + ΔW‖ ·
/// lora_B(lora_A(x)) · scaling. Source: peft 0.21.2 tuners/lora/dora.py DoraLinearLayer.forward, variants.py
/// DoraLinearVariant.
Tensor decomposed(Program& p, const Parameters& of, const Parameter& weight, const LinearAdapter& adapter,
                  const Tensor& x, const Tensor& result) {
  const Parameter* bias = of.find(path_of(weight) + ".bias");
  const bool drops = p.training.lora_dropout > 0;
  const Tensor dropped = drops ? dropped_input(p, adapter, x) : x;
  return hooked(p, {adapter.magnitudes}, dropped, [&](const Tensor& input) {
    Autograd& torch = p.torch;
    const Tensor update = weight_update(p, adapter);
    const Tensor base = base_weight(p, weight, bias, adapter, input.type);
    const Tensor norms = row_norms(p, base, update);
    const Tensor ratio =
        view(torch, div_by_constant(torch, adapter.magnitudes->tensor, norms), {1, norms.size(0)});
    const Tensor low = widened(p, adapter, narrowed(p, adapter, input));
    Tensor output = result;
    if (drops) {
      output = linear(torch, input, base);
    } else if (bias != nullptr) {
      read_from_magnitudes(p, adapter, *bias);
      output = sub(torch, result, bias->tensor);
    }
    Tensor first, second;
    {
      const Tensor less = add_number(torch, ratio);
      first = mul(torch, less, output);
    }
    {
      const Tensor raised = mul(torch, ratio, low);
      second = scale(torch, raised);
    }
    return add(torch, first, second);
  });
}

/// Records the sum of the base layer's output `result` and what the adapter computes from `x`.
Tensor with_adapter(Program& p, const Parameters& of, const Parameter& weight, const LinearAdapter& adapter,
                    const Tensor& x, const Tensor& result) {
  const Tensor added =
      adapter.magnitudes != nullptr ? decomposed(p, of, weight, adapter, x, result) : low_rank(p, adapter, x);
  return add(p.torch, result, added);
}

/// Records the adapter of gptqmodel's AWQ layers: its output is narrowed before it is scaled, and the layer's
/// own is not copied. Source: peft 0.21.2 tuners/lora/awq.py AwqLoraLinear.forward.
Tensor adapted_awq(Program& p, const Parameters& of, const Parameter& weight, const LinearAdapter& adapter,
                   Tensor x, const ModuleCall& module) {
  const Tensor result = base_layer(p, of, weight, x);
  const bool converts = !p.torch.autocast().enabled();
  if (converts) {
    read_type(p, module, adapter);
    x = to(p.torch, x, adapter.down->tensor.type);
  }
  Tensor output = unscaled_low_rank(p, adapter, x);
  if (converts) output = to(p.torch, output, result.type);
  output = scale(p.torch, output);
  return add(p.torch, result, output);
}

/// Returns the input of an adapter in its type. A compiled layer casts what several adapters read once.
Tensor adapter_input(Program& p, const Tensor& x, DType type) {
  const bool shares = p.training.compile != Compile::none && x.type != type;
  if (!shares) return to(p.torch, x, type);
  if (p.cast_of.lock() != x.storage) p.cast = to(p.torch, x, type), p.cast_of = x.storage;
  return p.cast;
}

/// Records peft's lora.Linear around an unquantised layer, or one of GPTQ, HQQ or torchao: the sum is
/// computed in the wider of both types and cast to the layer's own. Source: peft 0.21.2 tuners/lora/layer.py
/// Linear.forward.
Tensor adapted(Program& p, const Parameters& of, const Parameter& weight, const LinearAdapter& adapter,
               Tensor x, const ModuleCall& module) {
  Tensor result = base_layer(p, of, weight, x);
  const DType type = result.type;
  // HQQ's layers convert nothing under autocast. Source: peft 0.21.2 tuners/lora/hqq.py.
  const bool keeps_types = packed_by(p, weight, PackedBy::hqq) && p.torch.autocast().enabled();
  if (!keeps_types) {
    read_type(p, module, adapter);
    x = adapter_input(p, x, adapter.down->tensor.type);
  }
  result = with_adapter(p, of, weight, adapter, x, result);
  return keeps_types ? result : to(p.torch, result, type);
}

/// Records peft's layers around bitsandbytes': the adapter's output is cast to the layer's type before the
/// sum, unless autocast is on, and a 4-bit layer's output is copied. Source: peft 0.21.2 tuners/lora/bnb.py.
Tensor adapted_packed(Program& p, const Parameters& of, const Parameter& weight, const LinearAdapter& adapter,
                      Tensor x, const ModuleCall& module) {
  Tensor result = base_layer(p, of, weight, x);
  if (is_nf4(p.training.quantization)) result = clone(p.torch, result);
  const bool converts = !p.torch.autocast().enabled();
  if (converts) {
    read_type(p, module, adapter);
    x = to(p.torch, x, adapter.down->tensor.type);
  }
  if (adapter.magnitudes != nullptr) {
    const DType type = result.type;
    result = with_adapter(p, of, weight, adapter, x, result);
    return converts ? to(p.torch, result, type) : result;
  }
  Tensor output = low_rank(p, adapter, x);
  if (converts) output = to(p.torch, output, result.type);
  result = add(p.torch, result, output);
  return result;
}

}  // namespace

Tensor base_linear_layer(Program& p, const Parameters& of, const Parameter& weight, const Tensor& x) {
  return base_layer(p, of, weight, x);
}

Tensor linear_layer(Program& p, const Parameters& of, const Parameter& weight, const Tensor& x) {
  const auto own = p.modules().linear;
  return own != nullptr ? own(p, of, weight, x) : linear_of_transformers(p, of, weight, x);
}

Tensor linear_of_transformers(Program& p, const Parameters& of, const Parameter& weight, const Tensor& x) {
  const LinearAdapter adapter = linear_adapter(of, weight);
  if (adapter.down == nullptr) {
    if (!is_saved_copy(*weight.about)) return base_layer(p, of, weight, x);
    return hooked(p, {.name = "saved head"}, x,
                  [&](const Tensor& input) { return base_layer(p, of, weight, input); });
  }
  const bool by_bitsandbytes = packed_by(p, weight, PackedBy::bitsandbytes);
  const bool by_awq = packed_by(p, weight, PackedBy::awq);
  const ModuleCall module{.name = "adapted " + weight.about->name};
  return hooked(p, module, x, [&](const Tensor& input) {
    if (p.adapters_off) return base_layer(p, of, weight, input);
    if (by_awq) return adapted_awq(p, of, weight, adapter, input, module);
    return by_bitsandbytes ? adapted_packed(p, of, weight, adapter, input, module)
                           : adapted(p, of, weight, adapter, input, module);
  });
}

}  // namespace zplan::symbolic
