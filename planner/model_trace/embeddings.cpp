// What stands before and behind the layers, in the order in which each architecture's model runs it.

#include <string_view>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/parallel_operators.h"
#include "planner/model_trace/rare_operators.h"

namespace zplan::symbolic {

namespace {

const Parameter* position_embedding(const Parameters& of) {
  for (const Parameter& each : of.all())
    if (each.about->role == TensorRole::position_embedding) return &each;
  return nullptr;
}

Tensor rows_of(Program& p, const Parameter& table, const Tensor& places) {
  const bool divided = p.strategy.layout.tensor > 1 && table.about->split == TensorParallelSplit::vocabulary;
  return divided ? vocabulary_parallel_embedding(p.torch, table.tensor, places)
                 : embedding(p.torch, table.tensor, places);
}

Tensor looked_up(Program& p, const Parameter& table, const Tensor& places) {
  return hooked(p, {&table}, places, [&](const Tensor& at) { return rows_of(p, table, at); });
}

/// The token embedding. transformers gives checkpointed layers an input that needs a gradient even where the
/// embedding is frozen. Source: transformers 5.23 modeling_utils.py enable_input_require_grads. Gemma's
/// embedding multiplies by √h itself.
Tensor embed_tokens(Program& p, const Parameter& weight, const Tensor& ids) {
  return hooked(p, {&weight}, ids, [&](const Tensor& at) {
    Tensor embedded = rows_of(p, weight, at);
    if (p.operators().scales_embedding) embedded = scale(p.torch, embedded);
    if (p.strategy.checkpointing != Checkpointing::none) Autograd::require_gradient(embedded);
    return embedded;
  });
}

/// 0, 1, … as the model counts where it is given no positions. Where ranks divide a sample's tokens, they
/// come with the batch.
Tensor count_positions(Program& p) {
  if (p.strategy.layout.token_ranks() > 1) return of_batch({p.sizes.s}, DType::int64);
  const Tensor range = p.torch.operate({}, Layout::contiguous({p.sizes.s}), DType::int64);
  return p.torch.operate({&range}, Layout::contiguous({p.sizes.s}), DType::int64);
}

Tensor drop(Program& p, const Tensor& x) { return p.shape().embedding_dropout > 0 ? dropout(p.torch, x) : x; }

Tensor with_batch(Program& p, const Tensor& positions) { return unsqueeze(p.torch, positions, 0); }

/// GPT-2 and GPT-BigCode.
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

/// OPT counts positions by summing a mask, in fp32 where it makes the mask itself.
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
  if (uses_alibi(p.shape())) prepare_alibi(p);
  if (p.operators().rotary != Rotary::none) {
    p.given.positions = count_positions(p);
    p.torch.issue(1);  // with a dimension for samples
  }
  hidden = drop(p, hidden);
  prepare_positions(p);
  if (p.operators().attention == AttentionForm::mpt && p.given.mask.defined())
    p.given.mask = to(p.torch, p.given.mask, DType::boolean);
  return hidden;
}

Tensor after_layers(Program& p, const Parameters& of, const Tensor& hidden) {
  const std::string_view name = p.names().final_norm;
  const bool norms = of.has_module(name) || p.operators().bare_norms;
  const Tensor normed = norms ? normalise(p, of, name, hidden) : hidden;
  const Parameter* narrow = of.find("project_out.weight");
  return narrow != nullptr ? linear_layer(p, of, *narrow, normed) : normed;
}

}  // namespace zplan::symbolic
