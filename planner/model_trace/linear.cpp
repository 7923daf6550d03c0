#include "planner/model_trace/parallel_operators.h"
#include "planner/model_trace/program.h"
#include "planner/model_trace/quantised_linear.h"
#include "planner/sharding/rank_model.h"

namespace zplan::symbolic {

namespace {

/// The path of the module that holds the weight.
std::string path_of(const Parameter& weight) {
  const std::string& name = weight.about->name;
  return name.substr(0, name.rfind('.'));
}

bool packed(const Program& p, const Parameter& weight) {
  return p.training.method == Method::qlora && is_packed(*weight.about);
}

bool divided(const Program& p, const Parameter& weight) {
  return p.strategy.layout.tensor > 1 && weight.about->split != TensorParallelSplit::replicated;
}

Tensor product(Program& p, const Parameter& weight, const Parameter* bias, const Tensor& x) {
  const Tensor* addend = bias != nullptr ? &bias->tensor : nullptr;
  if (packed(p, weight)) return packed_linear(p, x, weight, addend);
  if (divided(p, weight)) {
    const bool by_rows = weight.about->split == TensorParallelSplit::row;
    const Tensor result =
        divided_linear(p.torch, by_rows ? x : column_parallel_input(p.torch, x), weight.tensor, addend);
    if (by_rows) p.torch.recorder().communicate(TensorCall::row_output, result.bytes());
    return result;
  }
  const LinearForm form = p.operators().linear;
  if (form == LinearForm::conv1d && bias != nullptr) return conv1d(p.torch, x, weight.tensor, bias->tensor);
  if (form == LinearForm::bias_apart && bias != nullptr) {
    const Tensor product = linear(p.torch, x, weight.tensor);
    return add(p.torch, product, bias->tensor);
  }
  return linear(p.torch, x, weight.tensor, addend);
}

Tensor base_layer(Program& p, const Parameters& of, const Parameter& weight, const Tensor& x) {
  const Parameter* bias = of.find(path_of(weight) + ".bias");
  return hooked(p, {&weight, bias}, x, [&](const Tensor& input) { return product(p, weight, bias, input); });
}

/// The adapter of one weight: lora_A and lora_B.
struct LinearAdapter {
  const Parameter* down{};
  const Parameter* up{};
};

LinearAdapter linear_adapter(const Parameters& of, const Parameter& weight) {
  const std::string path = path_of(weight);
  return {of.find(path + ".lora_A.default.weight"), of.find(path + ".lora_B.default.weight")};
}

/// lora_B(lora_A(dropout(x))) * scaling.
Tensor low_rank(Program& p, const LinearAdapter& adapter, const Tensor& x) {
  Tensor up;
  {
    Tensor down;
    {
      // An identity where nothing is dropped.
      const Tensor dropped = hooked(
          p, {.name = "dropout of " + adapter.down->about->name}, x,
          [&](const Tensor& input) { return p.training.lora_dropout > 0 ? dropout(p.torch, input) : input; });
      down = hooked(p, {adapter.down}, dropped,
                    [&](const Tensor& input) { return linear(p.torch, input, adapter.down->tensor); });
    }
    up = hooked(p, {adapter.up}, down,
                [&](const Tensor& input) { return linear(p.torch, input, adapter.up->tensor); });
  }
  return scale(p.torch, up);
}

/// The module of this name around a layer reads the type of lora_A's weight.
void read_type(Program& p, const ModuleCall& module, const LinearAdapter& adapter) {
  if (!hooks_modules(p)) return;
  Recorder& recorder = p.torch.recorder();
  recorder.read_parameter(recorder.module_number({.name = module.name}), adapter.down->index);
}

/// peft's lora.Linear around an unquantised layer: the sum is computed in the wider of both types and brought
/// back to the layer's own. Source: peft 0.21.2 tuners/lora/layer.py Linear.forward.
Tensor adapted(Program& p, const Parameters& of, const Parameter& weight, const LinearAdapter& adapter,
               Tensor x, const ModuleCall& module) {
  Tensor result = base_layer(p, of, weight, x);
  const DType type = result.type;
  read_type(p, module, adapter);
  x = to(p.torch, x, adapter.down->tensor.type);
  result = add(p.torch, result, low_rank(p, adapter, x));
  return to(p.torch, result, type);
}

/// peft's layers around bitsandbytes': the adapter's output is brought to the layer's type before the sum,
/// unless autocast is on, and a 4-bit layer's output is copied. Source: peft 0.21.2 tuners/lora/bnb.py.
Tensor adapted_packed(Program& p, const Parameters& of, const Parameter& weight, const LinearAdapter& adapter,
                      Tensor x, const ModuleCall& module) {
  Tensor result = base_layer(p, of, weight, x);
  if (p.training.quantization != Quantization::int8) result = clone(p.torch, result);
  const bool converts = !p.torch.autocast().enabled();
  if (converts) {
    read_type(p, module, adapter);
    x = to(p.torch, x, adapter.down->tensor.type);
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
  const LinearAdapter adapter = linear_adapter(of, weight);
  if (adapter.down == nullptr) return base_layer(p, of, weight, x);
  const bool by_bitsandbytes = packed(p, weight) && !is_gptq(p.training.quantization);
  const ModuleCall module{.name = "adapted " + weight.about->name};
  return hooked(p, module, x, [&](const Tensor& input) {
    return by_bitsandbytes ? adapted_packed(p, of, weight, adapter, input, module)
                           : adapted(p, of, weight, adapter, input, module);
  });
}

}  // namespace zplan::symbolic
