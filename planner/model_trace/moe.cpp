// Feed-forwards with routed experts, as transformers 5.23 runs them by default (experts_implementation
// "grouped_mm"). Source: models/<architecture>/modeling_<architecture>.py.
#include "planner/model_trace/moe.h"

#include "planner/model_trace/moe_operators.h"

namespace zplan::symbolic {

namespace {

Tensor as_rows(const Program& p, const Tensor& x) { return view(p.torch, x, {p.sizes.tokens(), p.sizes.h}); }

/// The experts that every token passes: down(act(gate(x)) * up(x)).
Tensor shared_experts(Program& p, const Parameters& of, const Tensor& x) {
  const auto inner = of.linears(TensorRole::shared_expert, TensorParallelSplit::column);
  const auto outer = of.linears(TensorRole::shared_expert, TensorParallelSplit::row);
  Tensor product;
  {
    Tensor activated;
    {
      const Tensor gate = linear_layer(p, of, *inner[0], x);
      activated = silu(p.torch, gate);
    }
    const Tensor up = linear_layer(p, of, *inner[1], x);
    product = mul(p.torch, activated, up);
  }
  return linear_layer(p, of, *outer[0], product);
}

/// Mixtral, Qwen 3, OLMoE, MiniMax, gpt-oss.
Tensor routed_only(Program& p, const Parameters& of, const Tensor& x) {
  const Tensor rows = as_rows(p, x);
  const Routed routed = route(p, of, rows);
  return view(p.torch, run_experts(p, of, rows, routed), x.layout.sizes);
}

/// DeepSeek, GLM-4.5: routed plus shared.
Tensor with_shared_experts(Program& p, const Parameters& of, const Tensor& x) {
  const Routed routed = route(p, of, x);
  const Tensor rows = as_rows(p, x);
  const Tensor chosen = view(p.torch, run_experts(p, of, rows, routed), x.layout.sizes);
  return add(p.torch, chosen, shared_experts(p, of, x));
}

/// Qwen 2 weighs its shared expert by a gate of its own.
Tensor with_gated_shared_expert(Program& p, const Parameters& of, const Parameter& gate, const Tensor& x) {
  const Tensor rows = as_rows(p, x);
  Tensor shared = shared_experts(p, of, rows);
  const Routed routed = route(p, of, rows);
  Tensor chosen = run_experts(p, of, rows, routed);
  {
    const Tensor share = sigmoid(p.torch, linear_layer(p, of, gate, rows));
    shared = mul(p.torch, share, shared);
  }
  chosen = add(p.torch, chosen, shared);
  return view(p.torch, chosen, x.layout.sizes);
}

}  // namespace

Tensor routed_feed_forward(Program& p, const Parameters& of, const Tensor& x) {
  if (const Parameter* gate = of.find("shared_expert_gate.weight"))
    return with_gated_shared_expert(p, of, *gate, x);
  const bool shares = !of.linears(TensorRole::shared_expert, TensorParallelSplit::column).empty();
  return shares ? with_shared_experts(p, of, x) : routed_only(p, of, x);
}

}  // namespace zplan::symbolic
