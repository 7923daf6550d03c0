// A decoder layer in the forms that architectures have given it, and what runs before and after the layers,
// in each architecture's order.

#include <string_view>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic {

namespace {

const Parameter* position_embedding(const Parameters& of) {
  for (const Parameter& each : of.all())
    if (each.about->role == TensorRole::position_embedding) return &each;
  return nullptr;
}

/// Records the lookup by tp_plan. A tied table is a parameter of its own to autograd, as it is to FSDP2's
/// units.
Tensor planned_rows(Program& p, const Parameter& table, const Tensor& places) {
  Tensor weight = table.tensor;
  if (p.shape().tied_embeddings && weight.requires_gradient) {
    weight = weight.detached();
    p.torch.accumulate_into(weight, table.index);
  }
  return divided_embedding(p.torch, weight, places, table.about->shape.front());
}

Tensor rows_of(Program& p, const Parameter& table, const Tensor& places) {
  if (follows_plan(p)) return planned_rows(p, table, places);
  const bool divided = p.strategy.layout.tensor > 1 && table.about->split == TensorParallelSplit::vocabulary;
  return divided ? vocabulary_parallel_embedding(p.torch, table.tensor, places)
                 : embedding(p.torch, table.tensor, places);
}

Tensor looked_up(Program& p, const Parameter& table, const Tensor& places) {
  return hooked(p, {&table}, places, [&](const Tensor& at) { return rows_of(p, table, at); });
}

/// Records the token embedding. transformers makes the input of checkpointed layers require a gradient even
/// where the embedding is frozen (modeling_utils.py enable_input_require_grads, 5.23). Gemma's embedding
/// multiplies by √h itself.
Tensor embed_tokens(Program& p, const Parameter& weight, const Tensor& ids) {
  return hooked(p, {&weight}, ids, [&](const Tensor& at) {
    Tensor embedded =
        p.training.compile == Compile::model ? compiled_embedding(p, weight, at) : rows_of(p, weight, at);
    if (p.operators().scales_embedding) embedded = scale(p.torch, embedded);
    if (p.strategy.checkpointing != Checkpointing::none) Autograd::require_gradient(embedded);
    return embedded;
  });
}

/// Records the positions 0, 1, … that the model counts itself. Where ranks divide a sample's tokens,
/// positions come with the batch.
Tensor count_positions(Program& p) {
  if (p.strategy.layout.token_ranks() > 1) return of_batch({p.sizes.s}, DType::int64);
  const Tensor range = p.torch.operate({}, Layout::contiguous({p.sizes.s}), DType::int64);
  return p.torch.operate({&range}, Layout::contiguous({p.sizes.s}), DType::int64);
}

/// Records the hidden dropout, where the model trains with one.
Tensor drop(Program& p, const Tensor& x) { return p.shape().embedding_dropout > 0 ? dropout(p.torch, x) : x; }

Tensor with_batch(Program& p, const Tensor& positions) { return unsqueeze(p.torch, positions, 0); }

/// Records the learned positions of GPT-2 and GPT-BigCode.
Tensor learned_positions(Program& p, const Parameter& table, const Tensor& embedded) {
  p.torch.issue(1);  // a view of the ids
  p.given.positions = count_positions(p);
  const bool masks_first = p.operators().positions == LearnedPositions::behind_masks;
  if (masks_first) prepare_positions(p);
  const Tensor places = looked_up(p, table, with_batch(p, p.given.positions));
  p.locals.push_back(places);
  const Tensor sum = add(p.torch, embedded, places);
  if (!masks_first) prepare_positions(p);
  return drop(p, sum);
}

/// torch.cumsum of [b, s]: one sequence passes CUB's scan. Source: torch 2.11
/// aten/src/ATen/native/cuda/ScanUtils.cuh.
Tensor opt_cumsum(Program& p) {
  constexpr std::int64_t kTile = 1920;
  Tensor counted = p.torch.operate({}, Layout::contiguous({p.sizes.b, p.sizes.s}), DType::fp32);
  if (p.sizes.b > 1) return counted;
  const Tensor memory = p.torch.make(Layout::contiguous({scan_memory(p.sizes.s, kTile, 4)}), DType::uint8);
  p.torch.drop_kernel();
  return counted;
}

/// Records OPT's positions, counted by summing a mask, in fp32 where OPT makes the mask itself.
Tensor opt_positions(Program& p, const Parameters& of, const Parameter& table, const Tensor& embedded) {
  Autograd& torch = p.torch;
  const Layout all = Layout::contiguous({p.sizes.b, p.sizes.s});
  torch.issue(2);  // views of ids and mask
  const Tensor mask = torch.operate({}, all, DType::fp32);
  {
    const Tensor counted = opt_cumsum(p);
    Tensor shifted;
    {
      const Tensor masked = torch.operate({&counted, &mask}, all, DType::fp32);
      shifted = torch.operate({&masked}, all, DType::fp32);
    }
    p.given.positions = torch.operate({&shifted}, all, DType::int64);
  }
  prepare_positions(p);
  Tensor places;
  {
    const Tensor offset = torch.operate({&p.given.positions}, all, DType::int64);
    places = looked_up(p, table, offset);
  }
  Tensor inputs = embedded;
  if (const Parameter* widen = of.find("project_in.weight")) inputs = linear_layer(p, of, *widen, embedded);
  Tensor sum = add(torch, inputs, places);
  p.locals = {inputs, p.given.positions, mask, places};
  return sum;
}

/// Records ALiBi's distances, or positions to rotate by.
void count_tokens(Program& p) {
  if (uses_alibi(p.shape())) prepare_alibi(p);
  if (p.operators().rotary == Rotary::none) return;
  p.given.positions = count_positions(p);
  p.torch.issue(1);  // with a dimension for samples
}

void make_masks(Program& p) {
  prepare_positions(p);
  if (p.operators().attention == AttentionForm::mpt && p.given.mask.defined())
    p.given.mask = to(p.torch, p.given.mask, DType::boolean);
}

}  // namespace

Tensor before_layers(Program& p, const Parameters& of) {
  const Tensor ids = of_batch({p.sizes.b, p.sizes.s}, DType::int64);
  const Parameter& table_of_tokens = of.all().front();
  const Parameter* copy = saved_copy(p, of, table_of_tokens);
  Tensor embedded = copy == nullptr ? embed_tokens(p, table_of_tokens, ids)
                                    : hooked(p, {.name = "saved embedding"}, ids, [&](const Tensor& given) {
                                        return embed_tokens(p, *copy, given);
                                      });
  if (p.tower != nullptr) embedded = with_images(p, embedded);
  if (p.operators().scales_residual) embedded = scale(p.torch, embedded);
  const Parameter* table = position_embedding(of);
  if (table != nullptr && p.operators().positions == LearnedPositions::summed)
    return opt_positions(p, of, *table, embedded);
  p.locals = {embedded};
  if (table != nullptr) return learned_positions(p, *table, embedded);
  Tensor hidden = embedded;
  if (!p.names().embedding_norm.empty()) hidden = normalise(p, of, p.names().embedding_norm, embedded);
  count_tokens(p);
  hidden = drop(p, hidden);
  make_masks(p);
  return hidden;
}

void prepare_layers(Program& p) {
  count_tokens(p);
  make_masks(p);
}

Tensor after_layers(Program& p, const Parameters& of, const Tensor& hidden) {
  const std::string_view name = p.names().final_norm;
  const bool norms = of.has_module(name) || p.operators().bare_norms;
  const Tensor normed = norms ? normalise(p, of, name, hidden) : hidden;
  const Parameter* narrow = of.find("project_out.weight");
  return narrow != nullptr ? linear_layer(p, of, *narrow, normed) : hooked_hidden(p, normed);
}

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

/// Records hidden + branch, with the branch normalised and scaled as the architecture does.
Tensor joined(const Layer& layer, std::string_view norm, const Tensor& hidden, Tensor& branch) {
  if (!norm.empty()) branch = normalise(layer.p, layer.of, norm, branch);
  if (!layer.operators.scales_residual) return add(layer.p.torch, hidden, branch);
  const Tensor scaled = scale(layer.p.torch, branch);
  return add(layer.p.torch, hidden, scaled);
}

Tensor normed_or_same(const Layer& layer, std::string_view norm, const Tensor& hidden) {
  return norm.empty() ? hidden : normalise(layer.p, layer.of, norm, hidden);
}

/// Records attention, then feed-forward, each with its residual.
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

/// Records attention and feed-forward on the output of one norm.
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

/// Records attention and feed-forward with a norm each. GPT-NeoX passes the normed tensors directly, Falcon
/// keeps them in variables.
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

/// Records OPT's layer, which flattens tokens for its feed-forward; the 350M model normalises after the sums.
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

/// WeightsHeld keeps the probabilities that eager attention returns in the layer's variable.
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
