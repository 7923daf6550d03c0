// Multi-head latent attention in Megatron-Core under Transformer Engine's layers: queries and keys pass
// bottlenecks that every tensor-parallel rank holds whole.
// Source: Megatron-Core 0.19.2 core/transformer/{multi_latent_attention,mla_qk_norm_config}.py,
// core/fusions/fused_mla_yarn_rope_apply.py; compared with recorded steps (docs/megatron.md).

#include <utility>

#include "planner/model_trace/megatron_layers.h"

namespace zplan::symbolic {

namespace {

using namespace megatron;

/// TE's Linear with parallel_mode "duplicated": of this rank's tokens, with a weight that all ranks hold.
Tensor whole_linear(Program& p, const Parameters& of, const std::string& module, const Tensor& x) {
  Autograd& torch = p.torch;
  const Parameter& weight = of.get(module + ".weight");
  const auto node = torch.node({&x, &weight.tensor});
  const std::int64_t in = weight.tensor.size(1), out = weight.tensor.size(0);
  const std::int64_t rows = x.elements() / in;
  const bool trains = weight.tensor.requires_gradient;
  const Adapter adapter = adapter_of(p, of, module);
  Tensor result = fresh(torch, with_last(x.layout.sizes, out), x.type);
  cast_operand(p, rows * in);
  torch.compute(product_of(rows, in, out, product_type(p)));
  if (!node) return adapted_whole(p, adapter, x, result);
  node->backward = [&p, &torch, kept = trains ? torch.save(x) : Saved{}, weight = weight.tensor.detached(),
                    trains, sizes = x.layout.sizes, in, out, rows](Tensors& gradients) {
    const Tensor held = trains ? kept.get() : Tensor{};
    const Tensor gradient = contiguous(torch, gradients[0]);
    Tensors outputs(2);
    outputs[0] = fresh(torch, sizes, gradient.type);
    cast_operand(p, rows * out);
    torch.compute(product_of(rows, out, in, product_type(p)));
    if (trains) outputs[1] = weight_gradient(p, weight, product_type(p));
    return outputs;
  };
  return adapted_whole(p, adapter, x, Autograd::connected(result, node));
}

/// The part of keys that is rotated, of all ranks' tokens.
Tensor gathered_positions(Program& p, const Tensor& x) {
  if (!divides_tokens(p)) return x;
  const auto node = p.torch.node({&x});
  const Tensor own = contiguous(p.torch, x.detached());
  Tensor all = gather(p, own, TensorCall::gathered_tokens);
  if (!node) return all;
  node->backward = [&p](Tensors& gradients) {
    const Tensor gradient = contiguous(p.torch, gradients[0]);
    return Tensors{scatter(p, gradient, TensorCall::scattered_tokens)};
  };
  return Autograd::connected(all, node);
}

/// fused_apply_mla_rope_for_q: rotates a part of each head in place, and its gradient too.
Tensor rotated_in_place(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  torch.change(x);
  if (!node) return x;
  node->backward = [&torch](Tensors& gradients) {
    Tensor gradient = contiguous(torch, gradients[0]);
    torch.change(gradient);
    return Tensors{gradient};
  };
  return Autograd::connected(x.detached(), node);
}

struct KeysAndValues {
  Tensor keys, values;
};

/// fused_apply_mla_rope_for_kv: keys of both parts and values, in new memory.
KeysAndValues split_heads(Program& p, const Tensor& both, const Tensor& positions) {
  Autograd& torch = p.torch;
  const LatentAttention& latent = *p.shape().latent_attention;
  const Sizes& n = p.sizes;
  const auto node = torch.node({&both, &positions});
  KeysAndValues made;
  made.keys = fresh(torch, {n.b, n.s, n.a, latent.nope_head_size + latent.rope_head_size}, both.type);
  made.values = fresh(torch, {n.b, n.s, n.a, latent.value_head_size}, both.type);
  if (!node) return made;
  node->backward = [&torch, of_both = both.layout.sizes,
                    of_positions = positions.layout.sizes](Tensors& gradients) {
    const Tensor of_keys = contiguous(torch, gradients[0]), of_values = contiguous(torch, gradients[1]);
    Tensors outputs(2);
    outputs[0] = fresh(torch, of_both, of_keys.type);
    outputs[1] = fresh(torch, of_positions, of_keys.type);
    return outputs;
  };
  Autograd::connect(made.keys, node, 0);
  Autograd::connect(made.values, node, 1);
  return made;
}

/// Queries whose rotated part joins the rest in new memory.
Tensor joined_queries(Program& p, const Tensor& query) {
  Autograd& torch = p.torch;
  const LatentAttention& latent = *p.shape().latent_attention;
  const Tensors parts = split(torch, query, 3, {latent.nope_head_size, latent.rope_head_size});
  const Tensor turned = rotate_unfused(p, parts[1]);
  return cat(torch, {parts[0], turned}, 3);
}

/// Keys that all heads' rotated part joins, and values, in new memory. Source: mcore-bridge 1.6.5
/// model/modules/multi_latent_attention.py qkv_up_proj_and_rope_apply.
KeysAndValues joined_heads(Program& p, const Tensor& both, const Tensor& positions) {
  Autograd& torch = p.torch;
  const LatentAttention& latent = *p.shape().latent_attention;
  const Sizes& n = p.sizes;
  const Tensor by_head = view(torch, both, {n.b, n.s, n.a, latent.nope_head_size + latent.value_head_size});
  const Tensors parts = split(torch, by_head, 3, {latent.nope_head_size, latent.value_head_size});
  KeysAndValues made;
  {
    const Tensor shared = unsqueeze(torch, positions, 2);
    const Tensor turned = rotate_unfused(p, shared);
    const Tensor of_heads = expand(torch, turned, {n.b, n.s, n.a, latent.rope_head_size});
    made.keys = cat(torch, {parts[0], of_heads}, 3);
  }
  made.values = contiguous(torch, parts[1]);
  return made;
}

}  // namespace

Tensor megatron::latent_attention(Program& p, const Parameters& of, const Tensor& x) {
  Autograd& torch = p.torch;
  const LatentAttention& latent = *p.shape().latent_attention;
  const Sizes& n = p.sizes;
  const bool compresses = latent.query_rank > 0;
  const Tensor queries = compresses ? whole_linear(p, of, "self_attention.linear_q_down_proj", x) : x;
  const Tensor both = whole_linear(p, of, "self_attention.linear_kv_down_proj", x);
  const Tensors parts = split(torch, both, 2, {latent.key_value_rank, latent.rope_head_size});
  const Tensor positions = gathered_positions(p, parts[1]);
  Tensor query = norm_and_linear(
      p, of, compresses ? "self_attention.linear_q_up_proj" : "self_attention.linear_q_proj", queries);
  const Tensor wide = norm_and_linear(p, of, "self_attention.linear_kv_up_proj", contiguous(torch, parts[0]));
  query = view(torch, query, {n.b, n.s, n.a, latent.nope_head_size + latent.rope_head_size});
  const bool fused = options(p).fuses_rotation;
  query = fused ? rotated_in_place(torch, query) : joined_queries(p, query);
  const KeysAndValues heads = fused ? split_heads(p, wide, positions) : joined_heads(p, wide, positions);
  const bool again = recomputes(p, RecomputedModule::core_attn);
  const auto attend = [&p, heads](const Tensor& q) {
    return fused_attention(p, q, heads.keys, heads.values);
  };
  const Tensor attended = again ? torch.checkpoint(attend, query, CheckpointMethod::full) : attend(query);
  const Tensor merged = view(torch, attended, of_tokens(p, n.a * latent.value_head_size));
  return row_linear(p, of, "self_attention.linear_proj", merged);
}

}  // namespace zplan::symbolic
