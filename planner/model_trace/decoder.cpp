// A decoder layer, in the forms that architectures have given it.

#include <string_view>

#include "planner/model_trace/moe_operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

struct Layer {
  Program& p;
  const Parameters& of;
  const Operators& operators;
  bool sliding{};
};

/// The hidden dropout, where the model is trained with one.
Tensor drop(const Layer& layer, const Tensor& x) {
  return layer.p.shape().dropout > 0 ? dropout(layer.p.torch, x) : x;
}

Tensor attended(const Layer& layer, std::string_view norm, const Tensor& hidden) {
  if (norm.empty()) return attention(layer.p, layer.of, hidden, layer.sliding);
  const Tensor normed = normalise(layer.p, layer.of, norm, hidden);
  return attention(layer.p, layer.of, normed, layer.sliding);
}

Tensor fed(const Layer& layer, std::string_view norm, const Tensor& hidden) {
  const Tensor normed = normalise(layer.p, layer.of, norm, hidden);
  return feed_forward(layer.p, layer.of, normed);
}

/// hidden + branch, where the branch was normalised and scaled as the architecture has it.
Tensor joined(const Layer& layer, std::string_view norm, const Tensor& hidden, Tensor& branch) {
  if (!norm.empty()) branch = normalise(layer.p, layer.of, norm, branch);
  if (!layer.operators.scales_residual) return add(layer.p.torch, hidden, branch);
  const Tensor scaled = scale(layer.p.torch, branch);
  return add(layer.p.torch, hidden, scaled);
}

Tensor normed_or_same(const Layer& layer, std::string_view norm, const Tensor& hidden) {
  return norm.empty() ? hidden : normalise(layer.p, layer.of, norm, hidden);
}

/// Attention, then feed-forward, each added to what it was given.
Tensor sequential(const Layer& layer, const Tensor& hidden) {
  const Modules& modules = layer.p.names();
  const NormLife life = layer.operators.norm_life;
  Tensor normed = normed_or_same(layer, modules.norm_before_attention, hidden);
  Tensor first = attention(layer.p, layer.of, normed, layer.sliding);
  if (!layer.operators.drops_inside) first = drop(layer, first);
  if (life == NormLife::call) normed.reset();
  const Tensor middle = joined(layer, modules.norm_behind_attention, hidden, first);
  layer.p.attention_locals.clear();
  if (life == NormLife::sum) normed.reset();
  if (!layer.operators.names_branches || life == NormLife::call) first.reset();
  Tensor second_normed = normed_or_same(layer, modules.norm_before_feed_forward, middle);
  if (life == NormLife::next_norm) normed.reset();
  Tensor second = drop(layer, feed_forward(layer.p, layer.of, second_normed));
  if (life == NormLife::call || life == NormLife::first_in_layer) second_normed.reset();
  return joined(layer, modules.norm_behind_feed_forward, middle, second);
}

Tensor sum(const Layer& layer, const Tensor& hidden, const Tensor& attention, const Tensor& feed_forward) {
  Autograd& torch = layer.p.torch;
  switch (layer.operators.sum) {
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
  const bool drops_last = layer.operators.sum == ParallelSum::in_place;
  const Tensor normed = normalise(layer.p, layer.of, layer.p.names().norm_before_attention, hidden);
  Tensor first = attention(layer.p, layer.of, normed, layer.sliding);
  if (layer.operators.sum == ParallelSum::branches_first && !layer.operators.drops_inside)
    first = drop(layer, first);
  Tensor second = feed_forward(layer.p, layer.of, normed);
  if (!drops_last) second = drop(layer, second);
  return sum(layer, hidden, first, second);
}

/// Attention and feed-forward of a norm each. GPT-NeoX norms on the way into a call, Falcon into variables.
Tensor parallel_of_two_norms(const Layer& layer, const Tensor& hidden) {
  Program& p = layer.p;
  const Modules& modules = p.names();
  if (layer.operators.norm_life == NormLife::layer) {
    const Tensor for_attention = normalise(p, layer.of, modules.norm_before_attention, hidden);
    const Tensor for_feed_forward = normalise(p, layer.of, modules.norm_before_feed_forward, hidden);
    const Tensor first = attention(p, layer.of, for_attention, layer.sliding);
    const Tensor second = feed_forward(p, layer.of, for_feed_forward);
    return sum(layer, hidden, first, second);
  }
  const Tensor first = drop(layer, attended(layer, modules.norm_before_attention, hidden));
  const Tensor second = drop(layer, fed(layer, modules.norm_before_feed_forward, hidden));
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
  const bool two_norms = !p.names().norm_before_feed_forward.empty();
  return two_norms ? parallel_of_two_norms(layer, hidden) : parallel(layer, hidden);
}

}  // namespace zplan::symbolic
