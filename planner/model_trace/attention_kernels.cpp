// Attention after the projections, in each of transformers' implementations.
// Source: transformers 5.23 integrations/sdpa_attention.py, eager_attention_forward and the attention classes
// of models/<architecture>/modeling_<architecture>.py.

#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

/// Repeats each key-value head for the queries that share it: a copy, or a view where one head serves all.
Tensor repeat_heads(Program& p, const Tensor& x, std::int64_t heads) {
  const std::int64_t own = x.size(1);
  if (own == heads) return x;
  const Tensor apart = unsqueeze(p.torch, x, 2);
  const Tensor wide = expand(p.torch, apart, {x.size(0), own, heads / own, x.size(2), x.size(3)});
  return reshape(p.torch, wide, {x.size(0), heads, x.size(2), x.size(3)});
}

/// [b, a, s, d] → [b, s, a·d].
Tensor merged(Program& p, const Tensor& x) {
  const Tensor by_token = contiguous(p.torch, transpose(p.torch, x, 1, 2));
  return reshape(p.torch, by_token, {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// ---- eager ------------------------------------------------------------------------------------------------

/// Records tanh(scores / cap) · cap.
Tensor soft_capped(Program& p, Tensor scores) {
  scores = scale(p.torch, scores);
  scores = tanh(p.torch, scores);
  return scale(p.torch, scores);
}

/// Records the softmax with a learned score per head, whose share of the probabilities is dropped (gpt-oss).
Tensor softmax_with_sinks(Program& p, const Parameters& of, const Tensor& scores, Tensor& combined) {
  const std::int64_t b = scores.size(0), a = scores.size(1), s = scores.size(2), keys = scores.size(3);
  const Tensor sinks = expand(p.torch, reshape(p.torch, of.get("sinks").tensor, {1, a, 1, 1}), {b, a, s, 1});
  combined = cat(p.torch, {scores, sinks}, 3);
  {
    const Tensor largest = unsqueeze(p.torch, max(p.torch, combined).values, 3);
    combined = sub(p.torch, combined, largest);
  }
  const Tensor probabilities = softmax(p.torch, combined, combined.type);
  return slice(p.torch, probabilities, 3, keys);
}

Tensor probabilities_of(Program& p, const Parameters& of, const Tensor& scores, DType type, Tensor& local) {
  switch (p.operators().softmax) {
    case Softmax::widened: return to(p.torch, softmax(p.torch, scores, DType::fp32), type);
    case Softmax::as_scores: return softmax(p.torch, scores, scores.type);
    case Softmax::with_sinks: return softmax_with_sinks(p, of, scores, local);
  }
  return {};
}

/// Records query · key, scaled and capped as the architecture does.
Tensor scores_of(Program& p, const Tensor& q, const Tensor& keys) {
  Tensor scores = matmul(p.torch, q, transpose(p.torch, keys, 2, 3));
  scores = scale(p.torch, scores);
  // Source: transformers 4.12 models/gpt2/modeling_gpt2.py _attn.
  if (p.training.masks_by_where) scores = where(p.torch, scores);
  if (p.operators().caps_scores && p.shape().logit_soft_cap) scores = soft_capped(p, std::move(scores));
  return scores;
}

Tensor eager(Program& p, const Parameters& of, const Tensor& q, const Tensor& k, const Tensor& v) {
  const DType scored = p.operators().wide_scores ? DType::fp32 : q.type;
  Tensor queries = to(p.torch, q, scored), own_keys = to(p.torch, k, scored);
  Tensor keys = repeat_heads(p, own_keys, q.size(1));
  const Tensor values = repeat_heads(p, v, q.size(1));
  Tensor weights = scores_of(p, queries, keys);
  if (p.given.mask.defined()) weights = add(p.torch, weights, p.given.mask);
  Tensor local;  // of the implementation's own
  weights = probabilities_of(p, of, weights, q.type, local);
  if (p.operators().softmax != Softmax::widened) weights = to(p.torch, weights, v.type);
  if (p.drops_attention()) weights = dropout(p.torch, weights);
  p.attention_weights = weights;
  Tensor output = matmul(p.torch, weights, values);
  if (p.operators().wide_scores) queries = {}, own_keys = {}, keys = {};  // GPT-J merges heads in the caller
  output = merged(p, output);
  return output;
}

// ---- scaled_dot_product_attention -------------------------------------------------------------------------

Tensor fused(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  const AttentionOptions options{.causal = !p.given.mask.defined(), .dropout = p.drops_attention()};
  const Tensor output = scaled_dot_product_attention(p.torch, q, k, v, p.given.mask, options);
  return merged(p, output);
}

/// Records the fused kernel. Without a mask it lets heads share keys and values itself.
Tensor fused_with_repeated_heads(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  const bool shares = !p.given.mask.defined() && k.size(3) == v.size(3) && k.size(3) <= 256;
  if (shares) return fused(p, q, k, v);
  const Tensor keys = repeat_heads(p, k, q.size(1)), values = repeat_heads(p, v, q.size(1));
  return fused(p, q, keys, values);
}

// ---- the flash-attention package --------------------------------------------------------------------------

/// Copies the real tokens of all samples, one sample after the other: [1, heads, tokens, d].
Tensor unpadded(Program& p, const Tensor& x, const Tensor& places) {
  const std::int64_t tokens = x.size(0) * x.size(2), heads = x.size(1), d = x.size(3);
  const Tensor rows =
      index(p.torch, reshape(p.torch, transpose(p.torch, x, 1, 2), {tokens, heads * d}), places);
  return transpose(p.torch, view(p.torch, rows, {1, tokens, heads, d}), 1, 2);
}

/// Records the kernel on a batch without its padding. No token of the batch is padding here, which needs most
/// memory. Source: transformers 5.23 modeling_flash_attention_utils.py _upad_input, _pad_input.
Tensor packaged_without_padding(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t tokens = q.size(0) * q.size(2), width = q.size(1) * v.size(3);
  const Tensor places = numbers(p.torch, {tokens}, DType::int64);
  const Tensor keys = unpadded(p, k, places), values = unpadded(p, v, places),
               queries = unpadded(p, q, places);
  const Tensor packed = flash_attention(p.torch, queries, keys, values, p.drops_attention(), q.size(0));
  const Tensor padded = index(p.torch, reshape(p.torch, merged(p, packed), {tokens, width}), places);
  return view(p.torch, padded, {q.size(0), q.size(2), width});
}

/// Records the kernel with values padded to the width of queries, which the package requires; the output is
/// cropped. Latent attention needs it. Source: transformers 5.23 integrations/flash_attention.py.
Tensor packaged_with_wide_values(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t heads = q.size(1), d = q.size(3);
  Tensor output;  // [b, a, s, d]
  {
    const Tensor by_token = transpose(p.torch, v, 1, 2);
    const Tensor wide = transpose(p.torch, pad(p.torch, by_token, 3, d - v.size(3)), 1, 2);
    if (p.given.mask.defined())
      output = transpose(
          p.torch, view(p.torch, packaged_without_padding(p, q, k, wide), {q.size(0), q.size(2), heads, d}),
          1, 2);
    else
      output = flash_attention(p.torch, q, k, wide, p.drops_attention());
  }
  return merged(p, slice(p.torch, output, 3, v.size(3)));
}

Tensor packaged(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (v.size(3) != q.size(3)) return packaged_with_wide_values(p, q, k, v);
  if (p.given.mask.defined()) return packaged_without_padding(p, q, k, v);
  return merged(p, flash_attention(p.torch, q, k, v, p.drops_attention()));
}

/// Returns the implementation that runs where `wanted` was requested.
Attention available(const Program& p, Attention wanted) {
  switch (p.operators().kernels) {
    case AttentionKernels::all: return wanted;
    case AttentionKernels::no_sdpa: return wanted == Attention::sdpa ? Attention::eager : wanted;
    case AttentionKernels::eager_only: return Attention::eager;
  }
  return wanted;
}

/// Returns the concatenation of an empty cache, of type `type`, and x.
Tensor cached(Program& p, const Tensor& x, DType type) {
  Tensor empty;
  empty.type = type;
  empty.layout = Layout::contiguous({x.size(0), x.size(1), 0, x.size(3)});
  return cat(p.torch, {empty, x}, 2);
}

}  // namespace

// transformers fills no cache where layers are checkpointed. The cache of a sliding window stores its width
// on the device. Source: transformers 5.23 cache_utils.py DynamicLayer, DynamicSlidingWindowLayer.
void keep_in_cache(Program& p, Heads& heads, bool sliding) {
  if (!p.training.keeps_cache || p.strategy.checkpointing != Checkpointing::none) return;
  if (sliding) p.cache.push_back(numbers(p.torch, {}, DType::int64));
  Tensor key = cached(p, heads.key, heads.key.type), value = cached(p, heads.value, heads.key.type);
  heads.key = std::move(key), heads.value = std::move(value);
  p.cache.insert(p.cache.end(), {heads.key, heads.value});
}

/// Returns the implementation of attention. Ring attention always runs scaled_dot_product_attention's
/// kernels.
Attention attention_of(const Program& p) {
  const bool others = p.strategy.layout.context > 1 || sees_images_whole(p);
  return available(p, others ? Attention::sdpa : p.training.attention);
}

namespace {

Tensor implemented(Program& p, const Parameters& of, const Tensor& q, const Tensor& k, const Tensor& v) {
  switch (attention_of(p)) {
    case Attention::eager: return eager(p, of, q, k, v);
    case Attention::sdpa: return fused_with_repeated_heads(p, q, k, v);
    case Attention::flash: return packaged(p, q, k, v);
  }
  return {};
}

}  // namespace

Tensor attend(Program& p, const Parameters& of, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (p.strategy.layout.context > 1) return merged(p, ring_attention(p, q, k, v));
  if (p.strategy.layout.sequence == 1) return implemented(p, of, q, k, v);
  return ulysses_attention(p, q, k, v, [&](const Tensor& query, const Tensor& key, const Tensor& value) {
    return implemented(p, of, query, key, value);
  });
}

}  // namespace zplan::symbolic
