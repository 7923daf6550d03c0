// A decoder layer, in the forms that architectures have given it.

#include <array>

#include "planner/model_trace/moe_operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

struct Layer {
  Program& p;
  const Parameters& of;
  const Operators& style;
  bool sliding{};
};

/// Paths of a layer's norms; empty where there is none.
struct Norms {
  std::string before_attention, behind_attention, before_feed_forward, behind_feed_forward;
};

std::string first_of(const Parameters& of, const std::array<const char*, 5>& names) {
  for (const char* each : names)
    if (of.has_module(each)) return each;
  return names.front();  // a norm without parameters (OLMo)
}

std::string norm_before_attention(const Parameters& of) {
  return first_of(of, {"input_layernorm", "ln_1", "norm_1", "self_attn_layer_norm", "attention_norm"});
}

std::string norm_before_feed_forward(const Parameters& of) {
  return first_of(of, {"post_attention_layernorm", "ln_2", "norm_2", "final_layer_norm", "ffn_norm"});
}

Norms norms_of(const Parameters& of) {
  if (of.has_module("pre_feedforward_layernorm"))  // Gemma 2 and 3
    return {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
            "post_feedforward_layernorm"};
  if (of.has_module("post_mlp_layernorm"))  // GLM-4-0414
    return {"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"};
  if (of.has_module("post_feedforward_layernorm"))  // OLMo 2 and 3, EXAONE 4
    return {"", "post_attention_layernorm", "", "post_feedforward_layernorm"};
  return {norm_before_attention(of), "", norm_before_feed_forward(of), ""};
}

/// The hidden dropout, where the model is trained with one.
Tensor drop(const Layer& layer, const Tensor& x) {
  return layer.p.shape().dropout > 0 ? dropout(layer.p.torch, x) : x;
}

Tensor attended(const Layer& layer, const std::string& norm, const Tensor& hidden) {
  if (norm.empty()) return attention(layer.p, layer.of, hidden, layer.sliding);
  const Tensor normed = normalise(layer.p, layer.of, norm, hidden);
  return attention(layer.p, layer.of, normed, layer.sliding);
}

Tensor fed(const Layer& layer, const std::string& norm, const Tensor& hidden) {
  if (norm.empty()) return feed_forward(layer.p, layer.of, hidden);
  const Tensor normed = normalise(layer.p, layer.of, norm, hidden);
  return feed_forward(layer.p, layer.of, normed);
}

/// hidden + branch, where the branch was normalised and scaled as the architecture has it.
Tensor joined(const Layer& layer, const std::string& norm, const Tensor& hidden, Tensor& branch) {
  if (!norm.empty()) branch = normalise(layer.p, layer.of, norm, branch);
  if (!layer.style.scales_residual) return add(layer.p.torch, hidden, branch);
  const Tensor scaled = scale(layer.p.torch, branch);
  return add(layer.p.torch, hidden, scaled);
}

Tensor normed_or_same(const Layer& layer, const std::string& norm, const Tensor& hidden) {
  return norm.empty() ? hidden : normalise(layer.p, layer.of, norm, hidden);
}

/// Attention, then feed-forward, each added to what it was given.
Tensor sequential(const Layer& layer, const Tensor& hidden) {
  const Norms norms = norms_of(layer.of);
  const NormLife life = layer.style.norm_life;
  Tensor normed = normed_or_same(layer, norms.before_attention, hidden);
  Tensor first = attention(layer.p, layer.of, normed, layer.sliding);
  if (!layer.style.drops_inside) first = drop(layer, first);
  if (life == NormLife::call) normed.reset();
  const Tensor middle = joined(layer, norms.behind_attention, hidden, first);
  layer.p.attention_locals.clear();
  if (life == NormLife::sum) normed.reset();
  if (!layer.style.names_branches || life == NormLife::call) first.reset();
  Tensor second_normed = normed_or_same(layer, norms.before_feed_forward, middle);
  if (life == NormLife::next_norm) normed.reset();
  Tensor second = drop(layer, feed_forward(layer.p, layer.of, second_normed));
  if (life == NormLife::call || life == NormLife::first_in_layer) second_normed.reset();
  return joined(layer, norms.behind_feed_forward, middle, second);
}

Tensor sum(const Layer& layer, const Tensor& hidden, const Tensor& attention, const Tensor& feed_forward) {
  Autograd& torch = layer.p.torch;
  switch (layer.style.sum) {
    case ParallelSum::branches_first: {
      const Tensor branches = add(torch, feed_forward, attention);
      return add(torch, branches, hidden);
    }
    case ParallelSum::input_first: {
      const Tensor middle = add(torch, hidden, attention);
      return add(torch, middle, feed_forward);
    }
    case ParallelSum::in_place: {
      Tensor branches = feed_forward;
      add_in_place(torch, branches, attention);
      const Tensor dropped = drop(layer, branches);
      return add(torch, hidden, dropped);
    }
  }
  return {};
}

/// Attention and feed-forward of one norm's output.
Tensor parallel(const Layer& layer, const Tensor& hidden) {
  const bool drops_last = layer.style.sum == ParallelSum::in_place;
  const Tensor normed = normalise(layer.p, layer.of, norm_before_attention(layer.of), hidden);
  Tensor first = attention(layer.p, layer.of, normed, layer.sliding);
  if (layer.style.sum == ParallelSum::branches_first && !layer.style.drops_inside) first = drop(layer, first);
  Tensor second = feed_forward(layer.p, layer.of, normed);
  if (!drops_last) second = drop(layer, second);
  return sum(layer, hidden, first, second);
}

/// Attention and feed-forward of a norm each. GPT-NeoX norms on the way into a call, Falcon into variables.
Tensor parallel_of_two_norms(const Layer& layer, const Tensor& hidden) {
  Program& p = layer.p;
  if (layer.of.has_module("ln_attn")) {
    const Tensor for_attention = normalise(p, layer.of, "ln_attn", hidden);
    const Tensor for_feed_forward = normalise(p, layer.of, "ln_mlp", hidden);
    const Tensor first = attention(p, layer.of, for_attention, layer.sliding);
    const Tensor second = feed_forward(p, layer.of, for_feed_forward);
    return sum(layer, hidden, first, second);
  }
  const Tensor first = drop(layer, attended(layer, norm_before_attention(layer.of), hidden));
  const Tensor second = drop(layer, fed(layer, norm_before_feed_forward(layer.of), hidden));
  return sum(layer, hidden, first, second);
}

/// OPT's feed-forward, whose steps the layer itself runs.
Tensor opt_feed_forward(const Layer& layer, const Tensor& rows, bool norms_before) {
  Program& p = layer.p;
  Tensor x = norms_before ? normalise(p, layer.of, "final_layer_norm", rows) : rows;
  x = linear_layer(p, layer.of, layer.of.get("fc1.weight"), x);
  x = activate(p, x);
  x = linear_layer(p, layer.of, layer.of.get("fc2.weight"), x);
  return drop(layer, x);
}

/// OPT flattens tokens for its feed-forward; its 350M model norms behind the sums.
Tensor opt(const Layer& layer, const Tensor& hidden, bool norms_before) {
  Program& p = layer.p;
  Tensor middle;
  {
    Tensor branch = attended(layer, norms_before ? "self_attn_layer_norm" : "", hidden);
    branch = drop(layer, branch);
    middle = add(p.torch, hidden, branch);
  }
  if (!norms_before) middle = normalise(p, layer.of, "self_attn_layer_norm", middle);
  const Tensor rows = reshape(p.torch, middle, {p.sizes.tokens(), p.sizes.h});
  middle.reset();
  Tensor sum;
  {
    const Tensor branch = opt_feed_forward(layer, rows, norms_before);
    sum = add(p.torch, rows, branch);
  }
  const Tensor result = view(p.torch, sum, {p.sizes.b, p.sizes.s, p.sizes.h});
  return norms_before ? result : normalise(p, layer.of, "final_layer_norm", result);
}

/// The layer's variable for what eager attention returns beside its output.
struct WeightsHeld {
  Tensor& weights;
  ~WeightsHeld() { weights.reset(); }
};

bool opt_norms_before(const Program& p) {
  for (const zplan::Tensor& each : p.model.inventory.before)
    if (each.role == TensorRole::norm) return true;
  return false;
}

}  // namespace

Tensor decoder_layer(Program& p, const Parameters& of, const Tensor& hidden, bool sliding) {
  const WeightsHeld held{p.attention_weights};
  const Layer layer{p, of, p.operators(), sliding};
  if (p.operators().layer == LayerForm::opt) return opt(layer, hidden, opt_norms_before(p));
  if (!p.shape().parallel_attention) return sequential(layer, hidden);
  const bool two_norms = of.has_module("ln_attn") || of.has_module("post_attention_layernorm");
  return two_norms ? parallel_of_two_norms(layer, hidden) : parallel(layer, hidden);
}

}  // namespace zplan::symbolic
