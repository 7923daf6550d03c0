#include <algorithm>
#include <vector>

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

constexpr const char* kFeedForward = "feed-forward";  ///< the module

Tensor gelu_by_parts(Program& p, const Tensor& x) {
  Autograd& torch = p.torch;
  const Tensor half = scale(torch, x);
  Tensor bent;
  {
    Tensor inner;
    {
      Tensor weighted;
      {
        const Tensor cube = pow(torch, x);
        weighted = scale(torch, cube);
      }
      inner = add(torch, x, weighted);
    }
    inner = scale(torch, inner);
    inner = tanh(torch, inner);
    bent = add_number(torch, inner);
  }
  return mul(torch, half, bent);
}

Tensor relu_squared(Program& p, const Tensor& x) {
  const Tensor positive = relu(p.torch, x);
  return pow(p.torch, positive);
}

Tensor activation(Program& p, const Tensor& x) {
  switch (p.operators().activation) {
    case Activation::silu: return silu(p.torch, x);
    case Activation::gelu: return gelu(p.torch, x);
    case Activation::gelu_by_parts: return p.modules().fused_gelu ? gelu(p.torch, x) : gelu_by_parts(p, x);
    case Activation::gelu_bloom: return gelu_bloom(p.torch, x);
    case Activation::relu: return relu(p.torch, x);
    case Activation::relu_squared: return relu_squared(p, x);
  }
  return {};
}

}  // namespace

Tensor activate(Program& p, const Tensor& x) {
  return hooked(p, {.name = "activation"}, x, [&](const Tensor& input) { return activation(p, input); });
}

namespace {

/// Records the activation of a gate. A fused kernel computes its product with the other half as well: it
/// reads both halves and writes the product; its backward reads both and the gradient and writes two.
Tensor activated_gate(Program& p, const Tensor& gate) {
  return p.torch.fused(fuses_kernels(p), Bytes{}, Bytes{}, [&] { return activate(p, gate); });
}
Tensor gate_product(Program& p, const Tensor& a, const Tensor& b) {
  return p.torch.fused(fuses_kernels(p), a.bytes() * 3, a.bytes() * 5, [&] { return mul(p.torch, a, b); });
}

/// outer(activation(inner(x))).
Tensor plain(Program& p, const Parameters& of, const Parameter& inner, const Parameter& outer,
             const Tensor& x) {
  Tensor activated;
  {
    const Tensor wide = linear_layer(p, of, inner, x);
    activated = activate(p, wide);
  }
  return linear_layer(p, of, outer, activated);
}

/// down(activation(gate(x)) · up(x)).
Tensor gated(Program& p, const Parameters& of, const std::vector<const Parameter*>& inner,
             const Parameter& outer, const Tensor& x) {
  Tensor product;
  {
    Tensor activated;
    {
      const Tensor gate = linear_layer(p, of, *inner[0], x);
      activated = activated_gate(p, gate);
    }
    const Tensor up = linear_layer(p, of, *inner[1], x);
    product = gate_product(p, activated, up);
  }
  return linear_layer(p, of, outer, product);
}

/// Records down(up · activation(gate)) where one weight makes gate and up: the variable of the gate keeps
/// both.
Tensor fused_gated(Program& p, const Parameters& of, const Parameter& inner, const Parameter& outer,
                   const Tensor& x) {
  Tensors halves;
  {
    const Tensor both = linear_layer(p, of, inner, x);
    const std::int64_t width = both.layout.sizes.back() / 2;
    halves = split(p.torch, both, both.layout.rank() - 1, {width, width});
  }
  {
    const Tensor activated = activated_gate(p, halves[0]);
    halves[1] = gate_product(p, halves[1], activated);
  }
  return linear_layer(p, of, outer, halves[1]);
}

/// Records w2(w1(x) · silu(w2(x))) of Qwen 1, which gates with its second projection.
Tensor gated_by_second(Program& p, const Parameters& of, const std::vector<const Parameter*>& inner,
                       const Parameter& outer, const Tensor& x) {
  Tensor product;
  const Tensor up = linear_layer(p, of, *inner[0], x);
  const Tensor gate = linear_layer(p, of, *inner[1], x);
  {
    const Tensor activated = activated_gate(p, gate);
    product = gate_product(p, up, activated);
  }
  return linear_layer(p, of, outer, product);
}

bool is_routed(const Parameters& of) {
  return std::any_of(of.all().begin(), of.all().end(),
                     [](const Parameter& each) { return each.about->role == TensorRole::expert; });
}

/// Records routed experts. DeepSpeed gathers some architectures' expert blocks as one module, because not
/// every rank uses each expert.
Tensor routed(Program& p, const Parameters& of, const Tensor& x) {
  const ModuleCall how{.name = kFeedForward, .leaf = p.shape().libraries.leaf_experts};
  return hooked(
      p, how.leaf ? parameters_under(of, "mlp") : std::vector<const Parameter*>{}, x,
      [&](const Tensor& input) { return routed_feed_forward(p, of, input); }, how);
}

/// Records AutoEP's layer. Its modules are hooked one by one: DeepSpeed does not gather its class as one
/// module.
Tensor expert_parallel(Program& p, const Parameters& of, const Tensor& x) {
  return hooked(p, {.name = kFeedForward}, x,
                [&](const Tensor& input) { return expert_parallel_feed_forward(p, of, input); });
}

}  // namespace

Tensor feed_forward_of_transformers(Program& p, const Parameters& of, const Tensor& x) {
  const auto inner = of.linears(TensorRole::mlp, TensorParallelSplit::column);
  const auto outer = of.linears(TensorRole::mlp, TensorParallelSplit::row);
  if (p.shape().fused_gate_up) return fused_gated(p, of, *inner[0], *outer[0], x);
  if (!p.shape().gated_mlp) return plain(p, of, *inner[0], *outer[0], x);
  if (p.operators().gates_by_second) return gated_by_second(p, of, inner, *outer[0], x);
  return gated(p, of, inner, *outer[0], x);
}

namespace {

/// Reads the weights that DeepSpeed's example passes to TiledMLP, outermost first, which makes them the
/// module's own at ZeRO-3. With adapters the example passes all that trains, which reads nothing.
void name_tiled_weights(Program& p, const Parameters& of) {
  if (!hooks_modules(p) || p.training.method != Method::full) return;
  Recorder& recorder = p.torch.recorder();
  const std::int32_t module = recorder.module_number({.name = kFeedForward});
  for (const TensorParallelSplit split : {TensorParallelSplit::row, TensorParallelSplit::column})
    for (const Parameter* weight : of.linears(TensorRole::mlp, split))
      recorder.read_parameter(module, weight->index);
}

}  // namespace

Tensor feed_forward(Program& p, const Parameters& of, const Tensor& x) {
  if (is_routed(of)) return p.strategy.experts.enabled ? expert_parallel(p, of, x) : routed(p, of, x);
  const std::int64_t tiles = mlp_tiles(p.strategy, p.training, p.shape().hidden_size);
  const auto own = kernels_of(p).feed_forward;
  const auto call = [&p, &of, own](const Tensor& input) {  // outlives this function where it is tiled
    return own != nullptr ? own(p, of, input) : feed_forward_of_transformers(p, of, input);
  };
  return hooked(p, {.name = kFeedForward}, x, [&](const Tensor& input) {
    if (tiles == 0) return call(input);
    name_tiled_weights(p, of);
    return tiled(p, input, tiles, call);
  });
}

}  // namespace zplan::symbolic
