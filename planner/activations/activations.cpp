#include "planner/activations/activations.h"

#include <algorithm>
#include <bit>

#include "planner/activations/block_form.h"

namespace zplan {

namespace {

bool is_routed(const LayerKind& kind) {
  return std::any_of(kind.tensors.begin(), kind.tensors.end(),
                     [](const Tensor& tensor) { return tensor.role == TensorRole::expert; });
}

/// Bytes per element of the activations' dtype over bf16's.
std::int64_t width(const Training& training) { return training.precision == Precision::fp32 ? 2 : 1; }

/// Routed feed-forward: K copies of every token's input and of the expert's inner tensors, routing indices
/// and weights.
std::int64_t routed_mlp(const BlockSizes& x, const MixtureOfExperts& moe, bool frozen) {
  const std::int64_t per_expert =
      frozen ? 2 * x.h + 6 * moe.intermediate_size : 4 * x.h + 8 * moe.intermediate_size;
  const std::int64_t shared = (frozen ? 6 : 8) * moe.shared_intermediate_size;
  return moe.experts_per_token * (per_expert + 40) + 4 * moe.experts + 4 + shared;
}

SavedPerToken trained_layer(const BlockSizes& x, const BlockForm& form, const ModelShape& shape,
                            bool routed) {
  const std::int64_t attention = form.query_key_norms + form.attention + form.output_input;
  if (routed) return {form.norms + routed_mlp(x, *shape.experts, false), attention, form.fixed};
  return {form.norms, form.mlp + attention, form.fixed};
}

/// lora_A: it reads the adapted layer's input. Expert stacks have one more dimension in front.
bool is_adapter_input(const Tensor& tensor) { return tensor.name.find("lora_A") != std::string::npos; }

/// Adapters in the engine's precision: stages 0-2 cast them to the model's 16 bits, zero.Init (stage 3)
/// leaves fp32.
bool fp32_adapters(const Training& training, const Strategy& strategy) {
  return training.precision == Precision::fp32 || strategy.zero_stage == 3;
}

/// In fp32 every adapted layer keeps an fp32 copy of its input and its own inner tensor.
std::int64_t fp32_adapter_inputs(const LayerKind& adapters) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : adapters.tensors)
    if (is_adapter_input(tensor)) bytes += 4 * tensor.shape.back() + 4 * tensor.shape.front();
  return bytes;
}

/// In 16 bits layers that read the same tensor share it, and what attention or ReLU keep anyway costs nothing
/// more.
std::int64_t bf16_adapter_inputs(const BlockSizes& x, const BlockForm& form, const LayerKind& adapters) {
  std::int64_t bytes = 0;
  bool attention_input = false, output_input = false, mlp_input = false, mlp_output = false;
  for (const Tensor& tensor : adapters.tensors) {
    if (!is_adapter_input(tensor)) continue;
    bytes += 2 * tensor.shape.front();
    const bool row = tensor.split == TensorParallelSplit::row;
    if (tensor.role == TensorRole::attention)
      (row ? output_input : attention_input) = true;
    else
      (row ? mlp_output : mlp_input) = true;
  }
  if (attention_input) bytes += 2 * x.h;
  if (output_input) bytes += form.output_input;
  if (mlp_input) bytes += 2 * x.h;
  if (mlp_output && !form.mlp_output_is_kept) bytes += 2 * x.f;
  return bytes;
}

SavedPerToken adapted_layer(const BlockSizes& x, const BlockForm& form, const Model& model,
                            const Training& training, const Strategy& strategy, std::size_t kind) {
  const Inventory adapters = lora_adapters(model, training.lora_rank, training.lora_targets);
  const LayerKind& own = adapters.kinds[kind];
  const std::int64_t inputs =
      fp32_adapters(training, strategy) ? fp32_adapter_inputs(own) : bf16_adapter_inputs(x, form, own);
  const std::int64_t attention = form.query_key_norms_frozen + form.attention;
  if (is_routed(model.inventory.kinds[kind]))
    return {form.norms_frozen + inputs + routed_mlp(x, *model.shape.experts, true), attention, form.fixed};
  return {form.norms_frozen + inputs, form.mlp_frozen + attention, form.fixed};
}

Bytes per_rank(SavedPerToken saved, const BlockSizes& x) {
  return Bytes(saved.replicated * x.T + saved.fixed) + share(Bytes(saved.split * x.T), x.t);
}

/// Kept by `selective`: the layer's input and the outputs of its matrix products and of attention.
Bytes selective_layer(const BlockSizes& x, const BlockForm& form, const ModelShape& shape,
                      const Training& training) {
  const std::int64_t wide = width(training) * (shape.gated_mlp ? 4 : 2) * x.f;
  return per_rank({width(training) * 6 * x.h, form.attention + wide, 0}, x);
}

/// While one layer's backward runs, on top of what is kept. Gradients of parameters are not counted here.
Bytes working_set(const BlockSizes& x, Bytes saved, const Training& training, Checkpointing checkpointing,
                  std::int64_t f) {
  const auto per_token = [&](std::int64_t coefficient) { return Bytes(coefficient * x.T); };
  const Bytes nothing{};
  const std::int64_t ft = share(Elements(f), x.t).value;
  const Bytes weight_gradient = training.method == Method::full ? Bytes(2 * x.h * ft) : nothing;
  if (checkpointing == Checkpointing::none) {
    if (training.method != Method::full) return std::max(per_token(4 * ft + 6 * x.h), nothing);
    return std::max({per_token(16 * x.h - 4), per_token(4 * ft - 6 * x.h - 4),
                     per_token(2 * ft - 6 * x.h - 4) + weight_gradient, nothing});
  }
  // The layer is computed again: its saved tensors are back, less the input that was kept all along.
  if (training.method != Method::full) return saved + per_token(4 * ft + 6 * x.h - 4);
  return std::max(saved - per_token(6 * x.h + 4), nothing) +
         std::max(per_token(4 * ft), per_token(2 * ft) + weight_gradient);
}

SavedPerToken saved_layer(const BlockSizes& x, const BlockForm& form, const Model& model,
                          const Training& training, const Strategy& strategy, std::size_t kind) {
  if (training.method != Method::full) return adapted_layer(x, form, model, training, strategy, kind);
  return trained_layer(x, form, model.shape, is_routed(model.inventory.kinds[kind]));
}

LayerActivations layer_activations(const BlockSizes& x, const BlockForm& form, const Model& model,
                                   const Training& training, const Strategy& strategy, std::size_t kind) {
  const Bytes saved = per_rank(saved_layer(x, form, model, training, strategy, kind), x);
  const std::int64_t f =
      is_routed(model.inventory.kinds[kind])
          ? model.shape.experts->intermediate_size * model.shape.experts->experts_per_token +
                model.shape.experts->shared_intermediate_size
          : x.f;
  const Bytes working = working_set(x, saved, training, strategy.checkpointing, f);
  switch (strategy.checkpointing) {
    case Checkpointing::none: return {saved, working};
    case Checkpointing::selective:
      return {std::min(saved, selective_layer(x, form, model.shape, training)), working};
    case Checkpointing::full: return {Bytes(width(training) * 2 * x.h * x.T), working};
  }
  return {saved, working};
}

/// Rotary tables, the final norm's tensors, and with checkpointing the positions held for the recomputation.
Bytes model_inputs(const BlockSizes& x, const Training& training, const Strategy& strategy) {
  const std::int64_t norm = training.method == Method::full ? 8 * x.h + 4 : 4 * x.h + 4;
  const std::int64_t positions = strategy.checkpointing == Checkpointing::none ? 0 : 8 * x.s;
  return Bytes(norm * x.T + 4 * x.s * x.d + positions);
}

/// Liger-style chunked head and loss: rows are cut so that a chunk of logits is about as large as the hidden
/// states. Source: Liger-Kernel fused_linear_cross_entropy (chunk = next power of two of T / ⌈V/h⌉).
LossActivations fused_loss(const BlockSizes& x, const Training& training) {
  const std::int64_t w = 2 * width(training);
  const std::int64_t chunks = share(Elements(x.V), x.h).value;
  const auto rows = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(share(Elements(x.T), chunks).value)));
  const Bytes hidden(w * x.h * x.T);
  const Bytes head = training.method == Method::full ? Bytes(w * x.V * x.h) : Bytes{};
  return {.logits = Bytes(w * x.V * std::min(rows, x.T)),
          .forward = hidden + head,
          .backward = {},
          .logit_gradient = {},
          .head_gradient = hidden + head};
}

/// Full logits: 16-bit logits, their fp32 copy and log-softmax forward; log-softmax and two gradients
/// backward. A tied head is split over the vocabulary by AutoTP, with a vocabulary-parallel loss; an untied
/// one is gathered.
LossActivations full_loss(const BlockSizes& x, const ModelShape& shape, const Training& training) {
  const std::int64_t w = 2 * width(training);
  const std::int64_t V = shape.tied_embeddings ? share(Elements(x.V), x.t).value : x.V;
  const std::int64_t cap = (shape.logit_soft_cap ? 2 : 0) * V * x.T;
  // The vocabulary-parallel loss masks and shifts its shard in one more copy.
  const std::int64_t masked = shape.tied_embeddings && x.t > 1 ? 2 * V * x.T : 0;
  const bool trains = training.method == Method::full;
  const Bytes weight = trains ? Bytes(w * share(Elements(x.V), x.t).value * x.h) : Bytes{};
  const Bytes early = trains ? Bytes{} : Bytes(2 * x.h * x.T);  // a frozen head needs no input kept
  return {.logits = Bytes(w * V * x.T),
          .forward = Bytes(8 * V * x.T + cap + masked),
          .backward = std::max(Bytes(12 * V * x.T + cap + masked) - early, Bytes{}),
          .logit_gradient = Bytes(w * V * x.T),
          .head_gradient = weight + Bytes(w * x.h * x.T)};
}

}  // namespace

SavedPerToken saved_per_token(const Model& model, const Training& training, const Strategy& strategy,
                              std::size_t kind) {
  return saved_layer(block_sizes(model, training, strategy), block_form(model, training, strategy), model,
                     training, strategy, kind);
}

Activations activations(const Model& model, const Training& training, const Strategy& strategy) {
  const BlockSizes x = block_sizes(model, training, strategy);
  const BlockForm form = block_form(model, training, strategy);
  Activations result;
  for (std::size_t kind = 0; kind < model.inventory.kinds.size(); ++kind)
    result.kinds.push_back(layer_activations(x, form, model, training, strategy, kind));
  result.model_inputs = model_inputs(x, training, strategy);
  result.loss = training.fused_loss ? fused_loss(x, training) : full_loss(x, model.shape, training);
  result.measured = is_measured_family(model.shape) && training.precision != Precision::fp32;
  return result;
}

}  // namespace zplan
