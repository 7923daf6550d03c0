// Attention of architectures that do not use transformers' shared implementations: BLOOM, Falcon, GPT-J, MPT
// and Qwen3-Next. Source: transformers 5.23 models/<architecture>/modeling_<architecture>.py.

#include <utility>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

Tensor projected(Program& p, const Parameters& of, const Tensor& x) {
  return linear_layer(p, of, attention_input(p, of), x);
}

Tensor output_of(Program& p, const Parameters& of, const Tensor& x) {
  return linear_layer(p, of, attention_output(p, of), x);
}

/// [b, a, s, d] → [b, s, a·d].
Tensor merged_view(Program& p, const Tensor& x) {
  return reshape(p.torch, transpose(p.torch, x, 1, 2), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Tensor drop_probabilities(Program& p, const Tensor& x) {
  return p.drops_attention() ? dropout(p.torch, x) : x;
}

// ---- BLOOM ------------------------------------------------------------------------------------------------

/// Returns queries, keys and values where each head's three rows are adjacent.
Heads side_by_side(Program& p, const Tensor& both) {
  const Tensor parts = view(p.torch, both, {p.sizes.b, p.sizes.s, p.sizes.a, 3, p.sizes.d});
  const auto part = [&] { return transpose(p.torch, select(p.torch, parts, 3), 1, 2); };
  Heads heads;
  heads.query = part(), heads.key = part(), heads.value = part();
  return heads;
}

Tensor bloom(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  Autograd& torch = p.torch;
  const std::int64_t b = p.sizes.b, s = p.sizes.s, a = p.sizes.a, d = p.sizes.d;
  Heads heads = side_by_side(p, projected(p, of, x));
  keep_in_cache(p, heads, sliding);
  const Tensor query = reshape(torch, heads.query, {b * a, s, d});
  const Tensor key = transpose(torch, reshape(torch, heads.key, {b * a, s, d}), 1, 2);
  const Tensor value = reshape(torch, heads.value, {b * a, s, d});
  const Tensor scores = baddbmm(torch, p.given.alibi, query, key);
  const Tensor weights = add(torch, view(torch, scores, {b, a, s, s}), p.given.mask);
  Tensor probabilities = to(torch, softmax(torch, weights, DType::fp32), query.type);
  probabilities = drop_probabilities(p, probabilities);
  Tensor output = matmul(torch, probabilities, view(torch, value, {b, a, s, d}));
  output = merged_view(p, output);
  // The residual is added before these variables go.
  p.attention_locals = {scores, weights, probabilities, output};
  return output_of(p, of, output);
}

// ---- MPT --------------------------------------------------------------------------------------------------

Tensor mpt_scores(Program& p, const Tensor& query, const Tensor& key) {
  Autograd& torch = p.torch;
  Tensor scores = matmul(torch, query, transpose(torch, key, 2, 3));
  scores = scale(torch, scores);
  const Tensor bias = slice(torch, p.given.alibi, 2, p.sizes.s);
  scores = add(torch, scores, bias);
  return masked_fill(torch, scores, p.given.mask);
}

Tensor mpt(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  Autograd& torch = p.torch;
  const std::int64_t d = p.sizes.d, width = p.sizes.a * d;
  const Tensors parts = split(torch, projected(p, of, x), 2, {width, width, width});
  const auto by_head = [&](const Tensor& part) {
    return transpose(torch, reshape(torch, part, {p.sizes.b, p.sizes.s, p.sizes.a, d}), 1, 2);
  };
  Heads heads{by_head(parts[0]), by_head(parts[1]), by_head(parts[2])};
  keep_in_cache(p, heads, sliding);
  const Tensor scores = mpt_scores(p, heads.query, heads.key);
  Tensor weights = to(torch, softmax(torch, scores, DType::fp32), heads.value.type);
  weights = drop_probabilities(p, weights);
  p.attention_weights = weights;
  Tensor output = matmul(torch, weights, heads.value);
  output = merged_view(p, output);
  return output_of(p, of, output);
}

// ---- Falcon -----------------------------------------------------------------------------------------------

/// Falcon 40B and 180B: groups of queries, each followed by its key and value, which are repeated for every
/// query.
Heads falcon_groups(Program& p, const Tensor& both) {
  Autograd& torch = p.torch;
  const std::int64_t b = p.sizes.b, s = p.sizes.s, a = p.sizes.a, k = p.sizes.k, d = p.sizes.d;
  const Tensor groups = view(torch, both, {b, s, k, a / k + 2, d});
  const Tensor queries = slice(torch, groups, 3, a / k);
  const Tensor key = index_one(torch, groups, 3), value = index_one(torch, groups, 3);
  const auto all = [&](const Tensor& x) {
    return transpose(torch, reshape(torch, expand(torch, x, {b, s, k, a / k, d}), {b, s, a, d}), 1, 2);
  };
  Heads heads;
  heads.query = transpose(torch, reshape(torch, queries, {b, s, a, d}), 1, 2);
  heads.key = all(key), heads.value = all(value);
  return heads;
}

/// 7B: all queries, then the one key and the one value.
Heads falcon_single(Program& p, const Tensor& both) {
  Autograd& torch = p.torch;
  const Tensor rows = view(torch, both, {p.sizes.b, p.sizes.s, p.sizes.a + 2, p.sizes.d});
  const Tensor query = slice(torch, rows, 2, p.sizes.a);
  const Tensor key = index_one(torch, rows, 2), value = index_one(torch, rows, 2);
  return {transpose(torch, query, 1, 2), transpose(torch, key, 1, 2), transpose(torch, value, 1, 2)};
}

Heads falcon_heads(Program& p, const Parameters& of, const Tensor& both) {
  const bool in_groups = of.find("ln_attn.weight") != nullptr || (p.sizes.k > 1 && p.sizes.k < p.sizes.a);
  if (in_groups) return falcon_groups(p, both);
  return p.sizes.k == 1 ? falcon_single(p, both) : side_by_side(p, both);
}

/// Returns one head for all queries, as torch.matmul broadcasts it.
Tensor for_all_heads(Program& p, const Tensor& x) {
  if (x.size(1) == p.sizes.a) return x;
  return expand(p.torch, x, {x.size(0), p.sizes.a, x.size(2), x.size(3)});
}

Tensor falcon_eager(Program& p, const Heads& heads) {
  Autograd& torch = p.torch;
  Tensor scores = matmul(torch, heads.query, for_all_heads(p, transpose(torch, heads.key, 2, 3)));
  scale_in_place(torch, scores);
  {
    const Tensor masked = add(torch, scores, p.given.mask);
    scores = softmax(torch, masked, scores.type);
  }
  p.attention_weights = scores;
  const Tensor output = matmul(torch, scores, for_all_heads(p, heads.value));
  return merged_view(p, output);
}

/// Records Falcon RW's attention with ALiBi: scores are widened, and bias and scale apply to all of them.
Tensor falcon_eager_with_bias(Program& p, const Heads& heads, Tensors& locals) {
  Autograd& torch = p.torch;
  const Tensor product = matmul(torch, heads.query, transpose(torch, heads.key, 2, 3));
  const Tensor scores = to(torch, product, DType::fp32);
  Tensor logits = add(torch, scores, p.given.alibi);
  scale_in_place(torch, logits);
  Tensor probabilities;
  {
    const Tensor masked = add(torch, logits, p.given.mask);
    probabilities = softmax(torch, masked, heads.value.type);
  }
  probabilities = drop_probabilities(p, probabilities);
  p.attention_weights = probabilities;
  locals = {product, scores, logits};
  const Tensor output = matmul(torch, probabilities, heads.value);
  return merged_view(p, output);
}

Tensor falcon_fused(Program& p, const Heads& heads) {
  const AttentionOptions options{.dropout = p.given.alibi.defined() && p.drops_attention(),
                                 .broadcasts = true};
  const Tensor output =
      scaled_dot_product_attention(p.torch, heads.query, heads.key, heads.value, p.given.mask, options);
  return merged_view(p, output);
}

Tensor falcon(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  const Tensor both = projected(p, of, x);
  p.torch.issue(3);  // views of the heads as they are
  Heads heads = falcon_heads(p, of, both);
  const bool biased = p.given.alibi.defined();
  if (!biased) rotate(p, heads);
  keep_in_cache(p, heads, sliding);
  Tensors locals;
  const bool eager = attention_of(p) == Attention::eager;
  Tensor output = !eager   ? falcon_fused(p, heads)
                  : biased ? falcon_eager_with_bias(p, heads, locals)
                           : falcon_eager(p, heads);
  output = output_of(p, of, output);
  return output;
}

// ---- GPT-J ------------------------------------------------------------------------------------------------

/// Records sines and cosines of the positions, from a copy of the table of all positions: [1, s, rotary
/// features] in 16 bits. All samples share positions that the model counts.
Tensor gathered_table(Program& p, std::int64_t features, Tensors& locals) {
  Autograd& torch = p.torch;
  const auto table = [&](std::int64_t rows, std::int64_t columns, DType type) {
    return torch.operate({}, Layout::contiguous({rows, columns}), type);
  };
  locals.push_back(table(p.shape().max_positions, features, DType::fp32));
  locals.push_back(table(p.sizes.s, features, DType::int64));
  const Tensor wide = table(p.sizes.s, features, DType::fp32);
  locals.push_back(to(torch, wide, p.weights));
  return locals.back();
}

/// Records x·cos + (−second, first)·sin of neighbours, with tables of its own.
Tensor gptj_turned(Program& p, const Tensor& x, std::int64_t features) {
  Autograd& torch = p.torch;
  const auto repeated = [&] {
    return torch.operate({}, Layout::contiguous({1, p.sizes.s, 1, features}), p.weights);
  };
  const Tensor sines = repeated(), cosines = repeated();
  const Tensor straight = mul(torch, x, cosines);
  Tensor crossed;
  {
    const Tensor moved = rotate_neighbours(p, x);
    crossed = mul(torch, moved, sines);
  }
  return add(torch, straight, crossed);
}

Tensor gptj(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  Autograd& torch = p.torch;
  const std::int64_t a = p.sizes.a, d = p.sizes.d, features = rotary_features(p), rest = d - features;
  const auto rows = [&](const char* name) { return linear_layer(p, of, of.get(name), x); };
  const Tensor query_rows = rows("q_proj.weight"), key_rows = rows("k_proj.weight"),
               value_rows = rows("v_proj.weight");
  const auto by_head = [&](const Tensor& each) { return view(torch, each, {p.sizes.b, p.sizes.s, a, d}); };
  Tensor query = by_head(query_rows), key = by_head(key_rows);
  const Tensor value = transpose(torch, by_head(value_rows), 1, 2);
  Tensors locals;
  const Tensor table = gathered_table(p, features, locals);
  const Tensor key_part = slice(torch, key, 3, features), key_rest = slice(torch, key, 3, rest);
  const Tensor query_part = slice(torch, query, 3, features), query_rest = slice(torch, query, 3, rest);
  const Tensor turned_key = gptj_turned(p, key_part, features);
  const Tensor turned_query = gptj_turned(p, query_part, features);
  key = cat(torch, {turned_key, key_rest}, 3);
  query = cat(torch, {turned_query, query_rest}, 3);
  Heads heads{transpose(torch, query, 1, 2), transpose(torch, key, 1, 2), value};
  keep_in_cache(p, heads, sliding);
  Tensor output = attend(p, of, heads.query, heads.key, heads.value);
  output = output_of(p, of, output);
  return p.shape().dropout > 0 ? dropout(torch, output) : output;
}

// ---- Qwen3-Next -------------------------------------------------------------------------------------------

/// Gated holds queries, and gates as rows, which the projection makes side by side.
struct Gated {
  Tensor query, gate;
};

Gated gated_queries(Program& p, const Parameters& of, const Tensor& x) {
  const std::int64_t b = p.sizes.b, s = p.sizes.s, a = p.sizes.a, d = p.sizes.d;
  Gated made;
  const Tensor both = view(p.torch, linear_layer(p, of, of.get("q_proj.weight"), x), {b, s, a, 2 * d});
  const Tensors parts = split(p.torch, both, 3, {d, d});
  made.gate = reshape(p.torch, parts[1], {b, s, a * d});
  made.query = normalise(p, of, "q_norm", view(p.torch, parts[0], {b, s, a, d}));
  return made;
}

Tensor gated(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  const std::int64_t b = p.sizes.b, s = p.sizes.s, k = p.sizes.k, d = p.sizes.d;
  const auto by_head = [&](const char* weight) {
    return view(p.torch, linear_layer(p, of, of.get(weight), x), {b, s, k, d});
  };
  Gated queries = gated_queries(p, of, x);
  Heads heads;
  heads.query = transpose(p.torch, std::exchange(queries.query, {}), 1, 2);
  heads.key = transpose(p.torch, normalise(p, of, "k_norm", by_head("k_proj.weight")), 1, 2);
  heads.value = transpose(p.torch, by_head("v_proj.weight"), 1, 2);
  rotate(p, heads);
  keep_in_cache(p, heads, sliding);
  Tensor output = attend(p, of, heads.query, heads.key, heads.value);
  {
    const Tensor share = sigmoid(p.torch, queries.gate);
    output = mul(p.torch, output, share);
  }
  return output_of(p, of, output);
}

}  // namespace

std::optional<Tensor> own_attention(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  switch (p.operators().attention) {
    case AttentionForm::shared: return std::nullopt;
    case AttentionForm::bloom: return bloom(p, of, x, sliding);
    case AttentionForm::falcon: return falcon(p, of, x, sliding);
    case AttentionForm::gptj: return gptj(p, of, x, sliding);
    case AttentionForm::gated: return gated(p, of, x, sliding);
    case AttentionForm::mpt: return mpt(p, of, x, sliding);
  }
  return std::nullopt;
}

}  // namespace zplan::symbolic
