#include "planner/activations/activations.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>

namespace zplan {

namespace {

/// Sizes in the letters of the formulas.
struct Symbols {
  std::int64_t h, f, a, k, d, V, s, T, t, L;
};

Symbols symbols(const Model& model, const Training& training, const Strategy& strategy) {
  const ModelShape& shape = model.shape;
  return {.h = shape.hidden_size,
          .f = shape.intermediate_size,
          .a = shape.attention_heads,
          .k = shape.key_value_heads,
          .d = shape.head_size,
          .V = shape.vocabulary_size,
          .s = training.sequence_length,
          .T = strategy.micro_batch_size * training.sequence_length,
          .t = strategy.tensor_parallel,
          .L = shape.layers};
}

/// Block families whose saved bytes were measured; others take the form of the nearest.
enum class Family { llama, gemma, gpt2, opt, neox, phi3 };

Family family(const ModelShape& shape) {
  if (shape.sandwich_norms) return Family::gemma;
  if (shape.architecture == "opt") return Family::opt;
  if (shape.architecture == "phi3" || shape.fused_gate_up) return Family::phi3;
  if (shape.gated_mlp) return Family::llama;
  return shape.parallel_attention ? Family::neox : Family::gpt2;
}

bool is_measured(const ModelShape& shape) {
  static constexpr std::array kMeasured{"llama", "mistral", "qwen2",       "qwen3", "mixtral", "qwen3_moe", "gemma2",
                                        "gpt2",  "opt",     "gemma3_text", "phi3",  "gpt_neox"};
  return std::find(kMeasured.begin(), kMeasured.end(), shape.architecture) != kMeasured.end();
}

bool is_routed(const LayerKind& kind) {
  return std::any_of(kind.tensors.begin(), kind.tensors.end(),
                     [](const Tensor& tensor) { return tensor.role == TensorRole::expert; });
}

/// Bytes per element of the activations' dtype over bf16's: what is not already fp32 doubles in fp32 training.
std::int64_t width(const Training& training) { return training.precision == Precision::fp32 ? 2 : 1; }

/// Queries, keys, values after rotation, the output and the kernel's statistics; eager attention keeps the scores,
/// in fp32 and as 16-bit probabilities.
std::int64_t attention_core(const Symbols& x, const ModelShape& shape, const Training& training) {
  const std::int64_t w = width(training);
  if (shape.latent_attention) {
    const LatentAttention& mla = *shape.latent_attention;
    const std::int64_t query_key = mla.nope_head_size + mla.rope_head_size;
    return w * x.a * (4 * query_key + 4 * mla.value_head_size) + 4 * x.a;
  }
  if (training.attention == Attention::eager) return w * 8 * x.a * x.d + (4 + 2 * w) * x.a * x.s;
  return w * (4 * x.a * x.d + 4 * x.k * x.d) + 4 * x.a;
}

/// MLA's low-rank bottlenecks: inputs of their norms in fp32 and 16 bits, and the up-projections' inputs.
std::int64_t latent_bottleneck(const ModelShape& shape) {
  if (!shape.latent_attention) return 0;
  return 8 * (shape.latent_attention->query_rank + shape.latent_attention->key_value_rank);
}

std::int64_t query_key_norms(const Symbols& x, const ModelShape& shape) {
  return shape.query_key_norm ? 6 * (x.a + x.k) * x.d + 4 * (x.a + x.k) : 0;
}

/// Routed feed-forward: K copies of every token's input and of the expert's inner tensors, routing indices and weights.
SavedPerToken routed_mlp(const Symbols& x, const MixtureOfExperts& moe, bool frozen) {
  const std::int64_t per_expert = frozen ? 2 * x.h + 6 * moe.intermediate_size : 4 * x.h + 8 * moe.intermediate_size;
  const std::int64_t shared = (frozen ? 6 : 8) * moe.shared_intermediate_size;
  return {moe.experts_per_token * (per_expert + 40) + 4 * moe.experts + 4 + shared, 0};
}

SavedPerToken full_llama(const Symbols& x, const ModelShape& shape, const Training& training, bool routed) {
  const std::int64_t w = width(training);
  // Norms: bf16 keeps an fp32 copy, the normed 16-bit tensor and the output; fp32 keeps input, normed and output.
  const std::int64_t norms = (w == 2 ? 24 : 16) * x.h + 8 + latent_bottleneck(shape);
  const std::int64_t core = attention_core(x, shape, training) + query_key_norms(x, shape);
  if (!routed) return {norms, w * 8 * x.f + core};
  SavedPerToken saved = routed_mlp(x, *shape.experts, false);
  return {norms + saved.replicated, core};
}

SavedPerToken full_other(Family kind, const Symbols& x, const ModelShape& shape, const Training& training) {
  const std::int64_t w = width(training);
  const bool eager = training.attention == Attention::eager;
  switch (kind) {
    case Family::gemma: {
      const std::int64_t norms = shape.query_key_norm ? 4 * (x.a + x.k) * x.d + 4 * (x.a + x.k) : 0;
      const std::int64_t scores = eager ? (shape.logit_soft_cap ? 8 : 6) * x.a * x.s : 4 * x.a;
      return {36 * x.h + 16, w * 8 * x.f + 4 * (x.a + x.k) * x.d + 4 * x.a * x.d + norms + scores};
    }
    case Family::opt: return {18 * x.h + 16, w * 2 * x.f + (eager ? 6 * x.a * x.s : 4 * x.a)};
    case Family::neox: return {20 * x.h + 16, w * 4 * x.f + (eager ? 6 * x.a * x.s : 4 * x.a)};
    case Family::phi3:
      return {16 * x.h + 8, w * 8 * x.f + 8 * x.a * x.d + (eager ? 6 * x.a * x.s : 6 * x.k * x.d + 4 * x.a)};
    case Family::gpt2:
    default: return {18 * x.h + 16, w * 10 * x.f + (eager ? 5 * x.a * x.s : 4 * x.a)};
  }
}

/// Adapters in the engine's precision: stages 0-2 cast them to the model's 16 bits, zero.Init (stage 3) leaves fp32.
bool fp32_adapters(const Training& training, const Strategy& strategy) {
  return training.precision == Precision::fp32 || strategy.zero_stage == 3;
}

/// What adapters add: in fp32 each adapted layer keeps its own fp32 copy of its input; in 16 bits layers that read
/// the same tensor share it, and the attention output's input is kept by the attention kernel anyway.
std::int64_t adapter_inputs(const Symbols& x, const LayerKind& adapters, bool fp32) {
  std::int64_t bytes = 0;
  std::set<std::pair<TensorRole, std::int64_t>> inputs;
  for (const Tensor& tensor : adapters.tensors) {
    if (!tensor.name.ends_with("lora_A.weight") && tensor.name.find("lora_A") == std::string::npos) continue;
    const std::int64_t rank = tensor.shape.front(), in = tensor.shape.back();
    bytes += fp32 ? 4 * in + 4 * rank : 2 * rank;
    const bool kept_by_attention = tensor.role == TensorRole::attention && in != x.h;
    if (!fp32 && !kept_by_attention) inputs.emplace(tensor.role, in);
  }
  for (const auto& [role, in] : inputs) bytes += 2 * in;
  return bytes;
}

SavedPerToken lora_layer(const Symbols& x, const Model& model, const Training& training, const Strategy& strategy,
                         const LayerKind& kind) {
  const ModelShape& shape = model.shape;
  // Frozen norms keep only their fp32 input; a frozen product keeps nothing: its input gradient needs the weight alone.
  const std::int64_t norms = shape.query_key_norm ? 4 * (x.a + x.k) * x.d + 4 * (x.a + x.k) : 0;
  const std::int64_t core = attention_core(x, shape, training) + norms;
  const Inventory adapters = lora_adapters(model, training.lora_rank, training.lora_targets);
  const auto index = static_cast<std::size_t>(&kind - model.inventory.kinds.data());
  const std::int64_t adapted = adapter_inputs(x, adapters.kinds[index], fp32_adapters(training, strategy));
  if (is_routed(kind)) return {8 * x.h + 8 + adapted + routed_mlp(x, *shape.experts, true).replicated, core};
  return {8 * x.h + 8 + adapted, 6 * x.f + core};
}

Bytes per_rank(SavedPerToken saved, const Symbols& x) {
  return Bytes(saved.replicated * x.T) + share(Bytes(saved.split * x.T), x.t);
}

/// Kept by `selective`: the layer's input and the outputs of its matrix products and of attention.
Bytes selective_layer(const Symbols& x, const ModelShape& shape, const Training& training) {
  const std::int64_t w = width(training);
  const std::int64_t wide = shape.gated_mlp ? 4 * x.f : 2 * x.f;
  return per_rank({w * 6 * x.h, attention_core(x, shape, training) + w * wide}, x);
}

/// While one layer's backward runs, on top of what is kept. Gradients of parameters are not counted here.
Bytes working_set(const Symbols& x, Bytes saved, const Training& training, Checkpointing checkpointing, std::int64_t f) {
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
  return std::max(saved - per_token(6 * x.h + 4), nothing) + std::max(per_token(4 * ft), per_token(2 * ft) + weight_gradient);
}

LayerActivations layer_activations(const Symbols& x, const Model& model, const Training& training,
                                   const Strategy& strategy, const LayerKind& kind) {
  const Bytes saved = per_rank(saved_per_token(model, training, strategy, kind), x);
  const std::int64_t f = is_routed(kind) ? model.shape.experts->intermediate_size * model.shape.experts->experts_per_token +
                                               model.shape.experts->shared_intermediate_size
                                         : x.f;
  const Bytes working = working_set(x, saved, training, strategy.checkpointing, f);
  switch (strategy.checkpointing) {
    case Checkpointing::none: return {saved, working};
    case Checkpointing::selective: return {std::min(saved, selective_layer(x, model.shape, training)), working};
    case Checkpointing::full: return {Bytes(width(training) * 2 * x.h * x.T), working};
  }
  return {saved, working};
}

/// Rotary tables, the final norm's tensors, and with checkpointing the positions held for the recomputation.
Bytes model_inputs(const Symbols& x, const Training& training, const Strategy& strategy) {
  const std::int64_t norm = training.method == Method::full ? 8 * x.h + 4 : 4 * x.h + 4;
  const std::int64_t positions = strategy.checkpointing == Checkpointing::none ? 0 : 8 * x.s;
  return Bytes(norm * x.T + 4 * x.s * x.d + positions);
}

/// Liger-style chunked head and loss: rows are cut so that a chunk of logits is about as large as the hidden states.
/// Source: Liger-Kernel fused_linear_cross_entropy (chunk = next power of two of T / ⌈V/h⌉).
LossActivations fused_loss(const Symbols& x, const Training& training) {
  const std::int64_t w = 2 * width(training);
  const std::int64_t chunks = share(Elements(x.V), x.h).value;
  const auto rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(share(Elements(x.T), chunks).value)));
  const Bytes hidden(w * x.h * x.T);
  const Bytes head = training.method == Method::full ? Bytes(w * x.V * x.h) : Bytes{};
  return {.logits = Bytes(w * x.V * std::min(rows, x.T)), .forward = hidden + head, .backward = {}, .logit_gradient = {},
          .head_gradient = hidden + head};
}

/// Full logits: 16-bit logits, their fp32 copy and log-softmax forward; log-softmax and two gradients backward.
/// A tied head is split over the vocabulary by AutoTP, with a vocabulary-parallel loss; an untied one is gathered.
LossActivations full_loss(const Symbols& x, const ModelShape& shape, const Training& training) {
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

SavedPerToken saved_per_token(const Model& model, const Training& training, const Strategy& strategy, const LayerKind& kind) {
  const Symbols x = symbols(model, training, strategy);
  if (training.method != Method::full) return lora_layer(x, model, training, strategy, kind);
  const Family form = family(model.shape);
  const bool routed = is_routed(kind);
  if (form == Family::llama || routed) return full_llama(x, model.shape, training, routed);
  return full_other(form, x, model.shape, training);
}

Activations activations(const Model& model, const Training& training, const Strategy& strategy) {
  const Symbols x = symbols(model, training, strategy);
  Activations result;
  for (const LayerKind& kind : model.inventory.kinds)
    result.kinds.push_back(layer_activations(x, model, training, strategy, kind));
  result.model_inputs = model_inputs(x, training, strategy);
  result.loss = training.fused_loss ? fused_loss(x, training) : full_loss(x, model.shape, training);
  result.measured = is_measured(model.shape) && training.precision != Precision::fp32;
  return result;
}

}  // namespace zplan
