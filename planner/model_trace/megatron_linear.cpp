// Linear layers of Transformer Engine as Megatron-Core divides them among ranks, and mcore-bridge's adapters
// of them.
// Source: Transformer Engine 2.20.2 pytorch/module/{layernorm_linear,linear}.py; Megatron-Core 0.19.2
// core/extensions/transformer_engine.py; mcore-bridge 1.6.5 tuners/lora.py LoraParallelLinear.

#include <string>
#include <utility>

#include "planner/model_trace/megatron_layers.h"

namespace zplan::symbolic::megatron {

void cast_operand(Program& p, std::int64_t elements) {
  if (product_type(p) != DType::uint8) return;
  constexpr std::int64_t kRead = 2, kWritten = 2;
  Load& load = p.torch.recorder().load();
  load.moved += Bytes(kRead + kWritten) * elements;
  ++load.kernels;
}

namespace {

std::int64_t rows_of(const Tensor& x) { return x.elements() / x.layout.sizes.back(); }

/// Records a product of `rows` tokens with a weight [out, in], or with its transpose.
void multiply_rows(Program& p, std::int64_t rows, std::int64_t in, std::int64_t out) {
  cast_operand(p, rows * in);
  p.torch.compute(product_of(rows, in, out, product_type(p)));
}

}  // namespace

void multiply(Program& p, std::int64_t in, std::int64_t out) { multiply_rows(p, p.sizes.tokens(), in, out); }

Tensor reduce_input_gradient(Program& p, Tensor gradient) {
  if (divides_tokens(p)) {
    gradient = scatter(p, gradient, TensorCall::scattered_gradients);
    p.torch.recorder().await(TensorCall::gathered_again);
  } else if (divides_tensors(p)) {
    p.torch.recorder().communicate(TensorCall::reduced_gradients, gradient.bytes());
  }
  return gradient;
}
void await_input_gradient(Program& p) {
  if (divides_tensors(p))
    p.torch.recorder().await(divides_tokens(p) ? TensorCall::scattered_gradients
                                               : TensorCall::reduced_gradients);
}

namespace {

Tensor gradient_over_rows(Program& p, const Tensor& weight, std::int64_t rows, DType type) {
  Tensor gradient;
  gradient.type = weight.type, gradient.layout = weight.layout;
  if (!options(p).adds_in_product) gradient = fresh(p.torch, weight.layout.sizes, weight.type);
  p.torch.compute(product_of(weight.size(0), rows, weight.layout.sizes.back(), type));
  return gradient;
}

}  // namespace

Tensor weight_gradient(Program& p, const Tensor& weight, DType type) {
  return gradient_over_rows(p, weight, p.sizes.tokens(), type);
}

namespace {

/// Records TE's Linear whose weight every rank holds whole, over the rank's own tokens.
Tensor whole_product(Program& p, const Parameter& weight, const Tensor& x) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x, &weight.tensor});
  const std::int64_t in = weight.tensor.size(1), out = weight.tensor.size(0), rows = rows_of(x);
  Tensor result = fresh(torch, with_last(x.layout.sizes, out), x.type);
  multiply_rows(p, rows, in, out);
  if (!node) return result;
  node->backward = [&p, &torch, kept = torch.save(x), weight = weight.tensor.detached(), in, out,
                    rows](Tensors& gradients) {
    const Tensor held = kept.get();
    Tensors outputs(2);
    outputs[0] = fresh(torch, held.layout.sizes, gradients[0].type);
    multiply_rows(p, rows, out, in);
    outputs[1] = gradient_over_rows(p, weight, rows, product_type(p));
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// A frozen weight needs no input in the backward.
Saved saved_for_weight(Autograd& torch, const Parameter& weight, const Tensor& x) {
  return weight.tensor.requires_gradient ? torch.save(x) : Saved{};
}

Tensor column_product(Program& p, const Parameter& weight, const Tensor& x) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x, &weight.tensor});
  const std::int64_t in = weight.tensor.size(1), out = weight.tensor.size(0);
  Tensor result;
  {
    const Tensor all = divides_tokens(p) ? gather(p, x, TensorCall::gathered_tokens) : x;
    result = fresh(torch, of_tokens(p, out), x.type);
    multiply(p, in, out);
  }
  if (!node) return result;
  node->backward = [&p, &torch, kept = saved_for_weight(torch, weight, x), weight = weight.tensor.detached(),
                    trains = weight.tensor.requires_gradient, in, out](Tensors& gradients) {
    Tensor held = trains ? kept.get() : Tensor{};
    Tensors outputs(2);
    Tensor all = trains && divides_tokens(p) ? gather(p, held, TensorCall::gathered_again) : held;
    Tensor gradient = fresh(torch, of_tokens(p, in), gradients[0].type);
    multiply(p, out, in);
    gradient = reduce_input_gradient(p, std::move(gradient));
    if (trains) outputs[1] = weight_gradient(p, weight, product_type(p));
    all.reset(), held.reset();
    await_input_gradient(p);
    outputs[0] = std::move(gradient);
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor row_product(Program& p, const Parameter& weight, const Tensor& x) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x, &weight.tensor});
  const std::int64_t in = weight.tensor.size(1), out = weight.tensor.size(0);
  Tensor result = fresh(torch, of_tokens(p, out), x.type);
  multiply(p, in, out);
  if (divides_tokens(p))
    result = scatter(p, result, TensorCall::scattered_tokens);
  else if (divides_tensors(p))
    torch.recorder().communicate(TensorCall::row_output, result.bytes());
  if (!node) return result;
  node->backward = [&p, &torch, kept = saved_for_weight(torch, weight, x), weight = weight.tensor.detached(),
                    trains = weight.tensor.requires_gradient, sizes = x.layout.sizes, in,
                    out](Tensors& gradients) {
    const Tensor held = trains ? kept.get() : Tensor{};
    const Tensor all =
        divides_tokens(p) ? gather(p, gradients[0], TensorCall::gathered_tokens) : gradients[0];
    Tensors outputs(2);
    outputs[0] = fresh(torch, sizes, all.type);
    multiply(p, out, in);
    if (trains) outputs[1] = weight_gradient(p, weight, product_type(p));
    return outputs;
  };
  return Autograd::connected(result, node);
}

}  // namespace

// ---- adapters ---------------------------------------------------------------------------------------------

Adapter adapter_of(const Program& p, const Parameters& of, const std::string& module) {
  if (p.adapters_off) return {};
  return {of.find(module + ".lora_A.default.weight"), of.find(module + ".lora_B.default.weight")};
}

Tensor adapted(Program& p, const Adapter& adapter, const Tensor& x, const Tensor& result,
               const AdapterProduct& down, const AdapterProduct& up) {
  if (adapter.down == nullptr) return result;
  Tensor low;
  {
    const Tensor input = p.training.lora_dropout > 0 ? dropout(p.torch, x) : x;
    low = down(*adapter.down, input);
  }
  Tensor output = up(*adapter.up, low);
  const Tensor scaled = scale(p.torch, output);
  output.reset();
  return add(p.torch, result, scaled);
}

namespace {

using ProductOf = Tensor (*)(Program&, const Parameter&, const Tensor&);

Tensor adapted_by(Program& p, const Adapter& adapter, const Tensor& x, const Tensor& result, ProductOf down,
                  ProductOf up) {
  const auto of = [&p](ProductOf product) {
    return [&p, product](const Parameter& weight, const Tensor& of_layer) {
      return product(p, weight, of_layer);
    };
  };
  return adapted(p, adapter, x, result, of(down), of(up));
}

/// Adapts a column-parallel layer: lora_A is whole on every rank and gets the rank's own tokens, lora_B is
/// divided as the layer is.
Tensor adapted_columns(Program& p, const Adapter& adapter, const Tensor& x, const Tensor& result) {
  return adapted_by(p, adapter, x, result, whole_product, column_product);
}

/// Adapts a row-parallel layer: lora_A is divided as the layer is, and ranks sum its narrow product; lora_B
/// is whole.
Tensor adapted_rows(Program& p, const Adapter& adapter, const Tensor& x, const Tensor& result) {
  return adapted_by(p, adapter, x, result, row_product, whole_product);
}

}  // namespace

Tensor adapted_whole(Program& p, const Adapter& adapter, const Tensor& x, const Tensor& result) {
  return adapted_by(p, adapter, x, result, whole_product, whole_product);
}

namespace {

/// NormedProduct holds both results of TE's LayerNormLinear: the product, and the normed tokens of this rank,
/// which an adapter reads.
struct NormedProduct {
  Tensor product, normed;
};

/// TE's LayerNormLinear, a column-parallel layer. It keeps its input and, unless the weight is frozen and no
/// adapter reads them, the normed tokens of this rank; under sequence parallelism those of all ranks are
/// gathered for the product, and again for the weight's gradient.
NormedProduct norm_and_product(Program& p, const Parameters& of, const std::string& module, const Tensor& x,
                               bool returns_normed) {
  Autograd& torch = p.torch;
  const Tensor none;
  const Parameter& gamma = of.get(module + ".layer_norm_weight");
  const Parameter& weight = of.get(module + ".weight");
  const Parameter* beta = of.find(module + ".layer_norm_bias");
  const Parameter* bias = of.find(module + ".bias");
  const bool centred = beta != nullptr, trains = weight.tensor.requires_gradient;
  const auto node = torch.node({&x, &gamma.tensor, beta != nullptr ? &beta->tensor : &none, &weight.tensor,
                                bias != nullptr ? &bias->tensor : &none});
  Tensor normed = fresh(torch, x.layout.sizes, x.type);
  Tensor statistics = fresh(torch, {centred ? 2 : 1, rows_of(x)}, DType::fp32);
  torch.end_kernel(1);
  const std::int64_t in = weight.tensor.size(1), out = weight.tensor.size(0);
  Tensor result;
  {
    const Tensor all = divides_tokens(p) ? gather(p, normed, TensorCall::gathered_tokens) : normed;
    result = fresh(torch, of_tokens(p, out), x.type);
    multiply(p, in, out);
  }
  if (!trains && !returns_normed) normed.reset();
  if (!node) return {result, normed};
  node->backward =
      [&p, &torch, kept = torch.save(x), kept_normed = normed.defined() ? torch.save(normed) : Saved{},
       sums = torch.save(statistics), weight = weight.tensor.detached(),
       has_bias = bias != nullptr && bias->tensor.requires_gradient, size = gamma.tensor.layout.sizes,
       centred, trains, returns_normed, in, out](Tensors& gradients) {
        const Tensor held = kept.get(), held_sums = sums.get();
        Tensor held_normed = trains || returns_normed ? kept_normed.get() : Tensor{};
        Tensors outputs(5);
        Tensor all =
            trains && divides_tokens(p) ? gather(p, held_normed, TensorCall::gathered_again) : held_normed;
        Tensor gradient = fresh(torch, of_tokens(p, in), gradients[0].type);
        multiply(p, out, in);
        // Python's variable holds the whole product beside the rank's part of the sum.
        const Tensor product = returns_normed ? gradient : Tensor{};
        gradient = reduce_input_gradient(p, std::move(gradient));
        if (trains) outputs[3] = weight_gradient(p, weight, product_type(p));
        if (has_bias) outputs[4] = fresh(torch, {out}, weight.type), torch.drop_kernel();
        all.reset(), held_normed.reset();
        await_input_gradient(p);
        if (returns_normed) gradient = torch.operate({&gradient, &gradients[1]}, held.layout, gradient.type);
        outputs[0] = fresh(torch, held.layout.sizes, gradient.type);
        outputs[1] = fresh(torch, size, gradient.type);
        if (centred) outputs[2] = fresh(torch, size, gradient.type);
        torch.end_kernel(1);
        return outputs;
      };
  Autograd::connect(result, node);
  if (returns_normed) Autograd::connect(normed, node, 1);
  return {result, normed};
}

}  // namespace

Tensor norm_and_linear(Program& p, const Parameters& of, const std::string& module, const Tensor& x) {
  const Adapter adapter = adapter_of(p, of, module);
  const NormedProduct made = norm_and_product(p, of, module, x, adapter.down != nullptr);
  return adapted_columns(p, adapter, made.normed, made.product);
}

Tensor column_linear(Program& p, const Parameters& of, const std::string& module, const Tensor& x) {
  return adapted_columns(p, adapter_of(p, of, module), x, column_product(p, of.get(module + ".weight"), x));
}

Tensor row_linear(Program& p, const Parameters& of, const std::string& module, const Tensor& x) {
  return adapted_rows(p, adapter_of(p, of, module), x, row_product(p, of.get(module + ".weight"), x));
}

}  // namespace zplan::symbolic::megatron
