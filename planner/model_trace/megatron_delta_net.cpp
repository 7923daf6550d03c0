// Megatron-Core's GatedDeltaNet as mcore-bridge runs it: a linear layer behind its norm, a convolution, the
// gated delta rule by flash-linear-attention's kernels, a norm and a gate, a linear layer.
// Source: mcore-bridge 1.6.5 model/modules/gated_delta_net.py; Megatron-Core 0.19.2
// core/ssm/gated_delta_net/{common,gdn}.py; flash-linear-attention 0.6.0 fla/modules/{convolution,l2norm}.py.
// No step of it was recorded.

#include <memory>
#include <utility>

#include "planner/model_trace/fla.h"
#include "planner/model_trace/megatron_layers.h"

namespace zplan::symbolic {

namespace {

using namespace megatron;

/// Heads of this tensor-parallel rank.
struct OwnHeads {
  std::int64_t keys{}, values{};
};

OwnHeads own_heads(const Program& p) {
  const DeltaNet& net = *p.shape().delta_net;
  return {net.key_heads / p.strategy.layout.tensor, net.value_heads / p.strategy.layout.tensor};
}

/// fla's causal_conv1d with SiLU: keeps its input, and computes the convolution again in the backward.
Tensor convolved(Program& p, const Tensor& x, const Tensor& weight) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x, &weight});
  Tensor result = fresh(torch, x.layout.sizes, x.type);
  torch.end_kernel();
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(x), sizes = weight.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    const Tensor again = fresh(torch, held.layout.sizes, held.type);
    Tensors outputs{fresh(torch, held.layout.sizes, gradients[0].type)};
    outputs.push_back(fresh(torch, sizes, held.type));
    torch.end_kernel();
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// fla's l2norm of queries or keys, which keeps its result and reciprocal norms.
Tensor unit_rows(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = fresh(torch, x.layout.sizes, x.type);
  Tensor roots = fresh(torch, {x.elements() / x.layout.sizes.back()}, DType::fp32);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(result), kept_roots = torch.save(roots)](Tensors& gradients) {
    const Tensor held = kept.get(), held_roots = kept_roots.get();
    return Tensors{fresh(torch, held.layout.sizes, gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

/// -exp(A_log) * softplus(alpha + dt_bias), in fp32.
Tensor decay_of(Program& p, const Parameters& of, const Tensor& alpha) {
  Autograd& torch = p.torch;
  const Tensor rate = neg(torch, exp(torch, of.get("self_attention.A_log").tensor));
  Tensor step;
  {
    const Tensor wide = to(torch, alpha, DType::fp32);
    step = add(torch, wide, of.get("self_attention.dt_bias").tensor);
  }
  step = softplus(torch, step);
  return mul(torch, rate, step);
}

/// Inputs of the delta rule, and the gate of its output.
struct DeltaInputs {
  Tensor query, key, value, decay, beta, gate;
};

/// Every key head has its queries, keys, values, gates and scalars beside each other; parts are copied out.
DeltaInputs delta_inputs(Program& p, const Parameters& of, const Tensor& all) {
  Autograd& torch = p.torch;
  const DeltaNet& net = *p.shape().delta_net;
  const auto [keys, values] = own_heads(p);
  const std::int64_t b = p.sizes.b, s = p.sizes.s, shared = values / keys, d = net.key_head_size,
                     e = shared * net.value_head_size;
  DeltaInputs made;
  Tensor mixed, alpha, beta;
  {
    const Tensor grouped = view(torch, all, {b, s, keys, all.layout.sizes.back() / keys});
    const Tensors parts = split(torch, grouped, 3, {2 * d + e, e, shared, shared});
    made.gate = reshape(torch, parts[1], {b, s, values, net.value_head_size});
    beta = reshape(torch, parts[2], {b, s, values});
    alpha = reshape(torch, parts[3], {b, s, values});
    mixed = reshape(torch, parts[0], {b, s, keys * (2 * d + e)});
  }
  mixed = convolved(p, mixed, of.get("self_attention.conv1d.weight").tensor);
  {
    const Tensors parts = split(torch, view(torch, mixed, {b, s, keys, 2 * d + e}), 3, {d, d, e});
    made.query = reshape(torch, parts[0], {b, s, keys, d});
    made.key = reshape(torch, parts[1], {b, s, keys, d});
    made.value = reshape(torch, parts[2], {b, s, values, net.value_head_size});
  }
  made.query = unit_rows(torch, made.query), made.key = unit_rows(torch, made.key);
  if (shared > 1) {
    made.query = repeat_interleave(torch, made.query, 2, shared);
    made.key = repeat_interleave(torch, made.key, 2, shared);
  }
  made.decay = decay_of(p, of, alpha);
  made.beta = sigmoid(torch, beta);
  return made;
}

Tensor delta_net_of_all_tokens(Program& p, const Parameters& of, const Tensor& hidden) {
  Autograd& torch = p.torch;
  const DeltaNet& net = *p.shape().delta_net;
  const std::int64_t values = own_heads(p).values;
  // Python's variable holds the product until the layer returns.
  const Tensor all = norm_and_linear(p, of, "self_attention.in_proj", hidden);
  const DeltaInputs in = delta_inputs(p, of, all);
  Tensor output = fla_delta_rule(torch,
                                 {.b = p.sizes.b,
                                  .s = p.sizes.s,
                                  .key_heads = values,
                                  .heads = values,
                                  .key = net.key_head_size,
                                  .value = net.value_head_size,
                                  .norms_inside = false},
                                 {in.query, in.key, in.value, in.decay, in.beta});
  output = norm(p, of, "self_attention.out_norm.", output);
  output = gated_by(torch, output, in.gate);
  output = view(torch, output, of_tokens(p, values * net.value_head_size));
  if (p.sizes.b > 1 && options(p).makes_mask) output = clone(torch, output);
  return row_linear(p, of, "self_attention.out_proj", output);
}

/// Runs `layer` on the tokens of all tensor-parallel ranks, without sequence parallelism inside, forward and
/// backward: its nodes' backwards run between those of the nodes around it.
template <class Layer>
Tensor over_all_tokens(Program& p, const Tensor& own, const Layer& layer) {
  Autograd& torch = p.torch;
  const std::int64_t ranks = p.sizes.u;
  Tensor all;
  {
    const auto node = torch.node({&own});
    all = gather(p, own, TensorCall::gathered_tokens);
    if (node)
      node->backward = [&p, &torch, ranks](Tensors& gradients) {
        p.sizes.u = ranks;
        return Tensors{fresh(torch, hidden_sizes(p), gradients[0].type)};
      };
    all = Autograd::connected(std::move(all), node);
  }
  p.sizes.u = 1;
  const Tensor whole = layer(all);
  p.sizes.u = ranks;
  const auto node = torch.node({&whole});
  Tensor result = fresh(torch, hidden_sizes(p), whole.type);
  if (!node) return result;
  node->backward = [&p](Tensors& gradients) {
    Tensor gathered = gather(p, gradients[0], TensorCall::gathered_tokens);
    p.sizes.u = 1;
    return Tensors{gathered};
  };
  return Autograd::connected(result, node);
}

}  // namespace

Tensor megatron::delta_net(Program& p, const Parameters& of, const Tensor& hidden) {
  const auto run = [&](const Tensor& x) { return delta_net_of_all_tokens(p, of, x); };
  return divides_tokens(p) ? over_all_tokens(p, hidden, run) : run(hidden);
}

}  // namespace zplan::symbolic
