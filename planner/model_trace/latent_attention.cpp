// Multi-head latent attention. Source: transformers 5.23 models/deepseek_v2/modeling_deepseek_v2.py,
// models/deepseek_v3/modeling_deepseek_v3.py.

#include "planner/model_trace/attention.h"
#include "planner/model_trace/moe_operators.h"
#include "planner/model_trace/rare_operators.h"

namespace zplan::symbolic {

namespace {

Tensor queries(Program& p, const Parameters& of, const Tensor& x) {
  Tensor rows = x;
  if (const Parameter* down = of.find("q_a_proj.weight")) {
    const Tensor narrow = linear_layer(p, of, *down, x);
    rows = normalise(p, of, "q_a_layernorm", narrow);
  }
  const Parameter& up =
      p.shape().latent_attention->query_rank > 0 ? of.get("q_b_proj.weight") : of.get("q_proj.weight");
  rows = linear_layer(p, of, up, rows);
  return transpose(p.torch, view(p.torch, rows, {p.sizes.b, p.sizes.s, p.sizes.a, p.sizes.d}), 1, 2);
}

/// Pairs of neighbours as complex numbers, turned by one multiplication in fp32.
Tensor turned_as_complex(Program& p, const Tensor& wide, DType type) {
  const Tensor product = multiply_complex(p.torch, wide, p.given.cosines);
  return to(p.torch, product, type);
}

void turn_as_complex(Program& p, Tensor& query, Tensor& key) {
  const DType type = query.type;
  const Tensor wide_query = to(p.torch, query, DType::fp32);
  const Tensor wide_key = to(p.torch, key, DType::fp32);
  Tensor turned_query = turned_as_complex(p, wide_query, type);
  Tensor turned_key = turned_as_complex(p, wide_key, type);
  query = std::move(turned_query), key = std::move(turned_key);
}

/// Every second feature, from the first and from the second.
Pairs neighbours(Program& p, const Tensor& x) {
  Tensor first = strided(p.torch, x, 2);
  return {std::move(first), strided(p.torch, x, 2)};
}

void turn_neighbours(Program& p, Tensor& query, Tensor& key) {
  const auto half = [&p](const Tensor& table) {
    return unsqueeze(p.torch, slice(p.torch, table, 2, table.size(2) / 2), 1);
  };
  const Tensor cosines = half(p.given.cosines), sines = half(p.given.sines);
  const Pairs of_query = neighbours(p, query), of_key = neighbours(p, key);
  Tensor turned_query = turned_pairs(p, of_query, cosines, sines);
  Tensor turned_key = turned_pairs(p, of_key, cosines, sines);
  query = std::move(turned_query), key = std::move(turned_key);
}

/// Keys and values of all heads from what they have in common.
void expand(Program& p, const Parameters& of, const Tensor& latent, const Tensor& turned, Heads& heads) {
  const LatentAttention& sizes = *p.shape().latent_attention;
  const std::int64_t b = p.sizes.b, s = p.sizes.s, a = p.sizes.a;
  const Tensor both = linear_layer(p, of, of.get("kv_b_proj.weight"), latent);
  const Tensor by_head =
      transpose(p.torch, view(p.torch, both, {b, s, a, sizes.nope_head_size + sizes.value_head_size}), 1, 2);
  const Tensors parts = split(p.torch, by_head, 3, {sizes.nope_head_size, sizes.value_head_size});
  const Tensor shared = expand(p.torch, turned, {b, a, s, sizes.rope_head_size});
  heads.key = fill(p.torch, {parts[0], shared}, 3);
  heads.value = parts[1];
}

}  // namespace

Heads latent_heads(Program& p, const Parameters& of, const Tensor& x) {
  const LatentAttention& sizes = *p.shape().latent_attention;
  const std::int64_t b = p.sizes.b, s = p.sizes.s;
  Heads heads;
  const Tensor query = queries(p, of, x);
  const Tensors query_parts = split(p.torch, query, 3, {sizes.nope_head_size, sizes.rope_head_size});
  const Tensor compressed = linear_layer(p, of, of.get("kv_a_proj_with_mqa.weight"), x);
  const Tensors parts = split(p.torch, compressed, 2, {sizes.key_value_rank, sizes.rope_head_size});
  const Tensor normed = normalise(p, of, "kv_a_layernorm", parts[0]);
  const Tensor latent = view(p.torch, normed, {b, 1, s, sizes.key_value_rank});
  Tensor turned_query = query_parts[1];
  Tensor turned_key = view(p.torch, parts[1], {b, 1, s, sizes.rope_head_size});
  if (p.operators().rotary == Rotary::deepseek_v2)
    turn_as_complex(p, turned_query, turned_key);
  else
    turn_neighbours(p, turned_query, turned_key);
  heads.query = cat(p.torch, {query_parts[0], turned_query}, 3);
  expand(p, of, latent, turned_key, heads);
  heads.locals = {query, turned_query, compressed, turned_key, latent};
  return heads;
}

}  // namespace zplan::symbolic
