#include "models/analogy.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"
#include "models/config.h"

namespace zplan {

namespace {

using KeyNames = std::initializer_list<std::string_view>;

constexpr std::int64_t kMostSize = 1'000'000'000, kMostLayers = 1024;

/// The first of these that the config says as a positive whole number; 0: none.
std::int64_t first_of(const Json& config, KeyNames names) {
  for (const std::string_view name : names) {
    const auto found = config.find(name);
    if (found == config.end() || !found->is_number_integer()) continue;
    const auto value = found->get<std::int64_t>();
    if (value > 0 && value <= kMostSize) return value;
  }
  return 0;
}

/// Returns the language model's part of an image-text model's config, else the config.
const Json& text_part(const Json& config) {
  for (const std::string_view name : {"text_config", "llm_config", "language_config"}) {
    const auto found = config.find(name);
    if (found != config.end() && found->is_object()) return *found;
  }
  return config;
}

}  // namespace

std::optional<ModelShape> shape_by_names(const Json& whole) {
  const Json& config = text_part(whole);
  ModelShape shape;
  shape.hidden_size = first_of(config, {"hidden_size", "n_embd", "d_model", "dim"});
  shape.layers = first_of(config, {"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  shape.vocabulary_size = first_of(config, {"vocab_size"});
  shape.attention_heads = first_of(config, {"num_attention_heads", "n_head", "n_heads", "num_heads"});
  if (shape.hidden_size == 0 || shape.layers == 0 || shape.layers > kMostLayers || shape.vocabulary_size == 0)
    return std::nullopt;
  if (shape.attention_heads == 0) shape.attention_heads = std::max<std::int64_t>(1, shape.hidden_size / 128);
  shape.key_value_heads = first_of(config, {"num_key_value_heads", "n_kv_heads"});
  if (shape.key_value_heads == 0 || shape.attention_heads % shape.key_value_heads != 0)
    shape.key_value_heads = shape.attention_heads;
  shape.head_size = first_of(config, {"head_dim"});
  if (shape.head_size == 0)
    shape.head_size = std::max<std::int64_t>(2, shape.hidden_size / shape.attention_heads);
  shape.intermediate_size =
      first_of(config, {"intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size"});
  if (shape.intermediate_size == 0) shape.intermediate_size = 4 * shape.hidden_size;
  shape.max_positions = first_of(config, {"max_position_embeddings", "n_positions"});
  const auto tied = config.find("tie_word_embeddings");
  shape.tied_embeddings = tied != config.end() && tied->is_boolean() && tied->get<bool>();
  MixtureOfExperts experts;
  experts.experts =
      first_of(config, {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"});
  experts.experts_per_token = first_of(
      config, {"num_experts_per_tok", "moe_k", "num_experts_per_token", "moe_topk", "top_k_experts"});
  experts.intermediate_size = first_of(config, {"moe_intermediate_size", "expert_ffn_hidden_size"});
  if (experts.intermediate_size == 0) experts.intermediate_size = shape.intermediate_size;
  if (experts.experts > 1 && experts.experts_per_token > 0 && experts.experts_per_token <= experts.experts)
    shape.experts = experts;
  return shape;
}

namespace {

Json analogous_config(const ModelShape& shape) {
  Json config{{"model_type", shape.experts ? "qwen3_moe" : "llama"},
              {"hidden_size", shape.hidden_size},
              {"intermediate_size", shape.intermediate_size},
              {"num_hidden_layers", shape.layers},
              {"num_attention_heads", shape.attention_heads},
              {"num_key_value_heads", shape.key_value_heads},
              {"head_dim", shape.head_size + shape.head_size % 2},
              {"vocab_size", shape.vocabulary_size},
              {"max_position_embeddings", std::max<std::int64_t>(shape.max_positions, 2048)},
              {"tie_word_embeddings", shape.tied_embeddings}};
  if (shape.experts) {
    config["num_experts"] = shape.experts->experts;
    config["num_experts_per_tok"] = shape.experts->experts_per_token;
    config["moe_intermediate_size"] = shape.experts->intermediate_size;
  }
  return config;
}

}  // namespace

Model analogue_of(const ModelShape& shape) {
  const Json config = analogous_config(shape);
  return read_config(JsonReader(config, "the analogous shape"));
}

namespace {

using SizesOfTensors = std::map<std::pair<TensorRole, std::vector<std::int64_t>>, std::int64_t>;

SizesOfTensors sizes_of(const std::vector<Tensor>& tensors) {
  SizesOfTensors sizes;
  for (const Tensor& each : tensors) ++sizes[{each.role, each.shape}];
  return sizes;
}

/// Returns the elements of tensors that both lists have.
double elements_in_both(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  const SizesOfTensors of_b = sizes_of(b);
  double sum = 0;
  for (const auto& [about, count] : sizes_of(a)) {
    const auto found = of_b.find(about);
    if (found == of_b.end()) continue;
    double elements = 1;
    for (const std::int64_t extent : about.second) elements *= static_cast<double>(extent);
    sum += elements * static_cast<double>(std::min(count, found->second));
  }
  return sum;
}

/// Returns the share of the elements of two models of one depth that tensors of one size and role have.
double likeness(const Inventory& a, const Inventory& b) {
  if (a.layers.size() != b.layers.size()) return 0;
  double both = elements_in_both(a.before, b.before) + elements_in_both(a.after, b.after);
  std::map<std::pair<std::size_t, std::size_t>, double> of_kinds;
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const std::pair kinds{a.layers[i], b.layers[i]};
    auto known = of_kinds.find(kinds);
    if (known == of_kinds.end())
      known =
          of_kinds
              .emplace(kinds, elements_in_both(a.kinds[kinds.first].tensors, b.kinds[kinds.second].tensors))
              .first;
    both += known->second;
  }
  return 2 * both / std::max(1.0, approximate_elements(a) + approximate_elements(b));
}

/// Reads a config as another architecture's; nothing where that does not read it.
std::optional<Model> read_as(const Json& config, const architectures::Descriptor& about) {
  Json renamed = config;
  renamed["model_type"] = about.model_type;
  try {
    Model model = about.read(JsonReader(renamed, "the analogous config"), about);
    architectures::leave_whole(model.inventory, about.left_whole);
    return model;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

Model nearest_model(const Json& config, const Inventory& own, const ModelShape& shape) {
  Model best = analogue_of(shape);
  constexpr double kMoreAlike = 1e-4;
  double most = likeness(own, best.inventory) + kMoreAlike;
  for (const architectures::Descriptor& each : architectures::descriptors()) {
    std::optional<Model> model = read_as(config, each);
    if (!model) continue;
    const double share = likeness(own, model->inventory);
    if (share <= most) continue;
    most = share + kMoreAlike;
    best = *std::move(model);
  }
  return best;
}

std::optional<Model> model_by_analogy(const JsonReader& config) {
  const auto shape = shape_by_names(config.raw());
  if (!shape) return std::nullopt;
  Model model;
  try {
    model = analogue_of(*shape);
  } catch (const InputError&) {
    return std::nullopt;  // its sizes do not go together as the analogue's must
  }
  model.analogue = std::make_shared<Model>(model);
  model.shape.architecture = config.text_or("model_type", "unknown");
  return model;
}

}  // namespace zplan
