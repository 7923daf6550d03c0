#include "planner/check/readers/models.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/lookup.h"
#include "models/config.h"
#include "models/recorded/read.h"
#include "planner/check/readers/values.h"

namespace zplan::check {

namespace {

/// Returns the catalogue's model of that name, cut to `layers` layers.
std::optional<Model> cut_model(const std::string& name, std::int64_t layers, const std::string& place) {
  std::vector<const CatalogueEntry*> named = entries_named(name, NameMatch::exact, catalogue());
  if (named.empty()) named = entries_named(name, NameMatch::loose, catalogue());
  if (named.empty()) return std::nullopt;
  Json config = Json::parse(named.front()->config);
  config[config.contains("n_layer") ? "n_layer" : "num_hidden_layers"] = layers;
  // Lists with an entry per layer are for the whole depth; without them the pattern is the architecture's
  // own.
  config.erase("layer_types");
  return read_config(JsonReader(config, place));
}

/// True if the measured model is the one that the catalogue means.
bool same_sizes(const JsonReader& shape, const ModelShape& model) {
  const auto size = [&](const char* key) { return shape.at(key).integer(1, kMostSequence); };
  return size("hidden") == model.hidden_size && size("heads") == model.attention_heads &&
         size("kv_heads") == model.key_value_heads && size("ffn") == model.intermediate_size &&
         size("vocab") == model.vocabulary_size && size("head_dim") == model.head_size &&
         shape.at("tied").boolean() == model.tied_embeddings;
}

struct Slice {
  std::string module;
  std::int64_t rows{};
};

std::vector<Slice> attention_slices(const ModelShape& shape) {
  const std::int64_t keys = shape.key_value_heads * shape.head_size;
  return {{"q_proj", shape.attention_heads * shape.head_size}, {"k_proj", keys}, {"v_proj", keys}};
}

std::vector<Slice> gate_slices(const ModelShape& shape) {
  return {{"gate_proj", shape.intermediate_size}, {"up_proj", shape.intermediate_size}};
}

/// A slice of the rows, under its own name.
Tensor part_of(const Tensor& whole, const Slice& slice) {
  Tensor part = whole;
  const std::size_t at = whole.name.rfind(whole.module + ".");
  part.name.replace(at, whole.module.size(), slice.module);
  part.module = slice.module;
  part.shape.front() = slice.rows;
  if (part.linear) part.linear->out_features = slice.rows;
  return part;
}

/// The weight, or the bias, of the projection that `slices` are of.
bool is_whole(const Tensor& tensor, TensorRole role, const std::vector<Slice>& slices) {
  std::int64_t rows = 0;
  for (const Slice& each : slices) rows += each.rows;
  return tensor.role == role && !tensor.shape.empty() && tensor.shape.front() == rows;
}

void split(std::vector<Tensor>& tensors, TensorRole role, const std::vector<Slice>& slices) {
  std::vector<Tensor> parts;
  for (Tensor& each : tensors) {
    if (!is_whole(each, role, slices)) {
      parts.push_back(std::move(each));
      continue;
    }
    for (const Slice& slice : slices) parts.push_back(part_of(each, slice));
  }
  tensors = std::move(parts);
}

/// Returns the operators of litgpt's own code around attention and feed-forward.
Operators plain_operators(const Operators& own) {
  Operators plain;
  plain.norm = own.norm, plain.activation = own.activation;
  plain.scales_embedding = own.scales_embedding;
  plain.rotary = own.rotary_share < 1 ? Rotary::phi3 : Rotary::llama;
  plain.rotary_share = own.rotary_share;
  return plain;
}

}  // namespace

std::optional<Model> model_at(const JsonReader& config, Skip& skip) {
  if (config.has("format")) return read_recorded_model(config);
  const std::string architecture = config.at("model_type").text();
  if (config.has("vision_config"))
    if (auto model = recorded_model(config); model && model->recorded) return model;
  const std::vector<std::string> known = supported_architectures();
  if (std::find(known.begin(), known.end(), architecture) != known.end()) return read_config(config);
  if (auto model = recorded_model(config)) return model;
  if (config.has("vision_config") && image_text_model(config)) return read_config(config);
  if (Model model = read_config(config); model.recorded || !model.analogue) return model;
  skip.add("architecture " + architecture);
  return std::nullopt;
}

std::optional<Model> measured_model(const std::string& name, const JsonReader& shape) {
  const std::int64_t layers = shape.at("layers_used").integer(1, kMostBatch);
  std::optional<Model> model = cut_model(name, layers, shape.place());
  return model && same_sizes(shape, model->shape) ? model : std::nullopt;
}

std::optional<Model> smallest_model(const std::string& name, const std::string& place) {
  std::optional<Model> one = cut_model(name, 1, place);
  const std::int64_t period = one ? one->shape.operators.full_attention_every : 0;
  if (period == 0) return one;
  std::optional<Model> all = cut_model(name, period, place);
  return all->shape.sliding_layers > 0 && all->shape.sliding_layers < period ? all : one;
}

Model small_llama(const JsonReader& sizes) {
  const auto size = [&](const char* key) { return sizes.at(key).integer(1, kMostSequence); };
  const Json config = {{"model_type", "llama"},
                       {"hidden_size", size("hidden")},
                       {"intermediate_size", size("ffn")},
                       {"num_hidden_layers", size("layers")},
                       {"num_attention_heads", size("heads")},
                       {"num_key_value_heads", size("kv")},
                       {"vocab_size", size("vocab")},
                       {"max_position_embeddings", 512},
                       {"tie_word_embeddings", sizes.at("tie").boolean()}};
  return read_config(JsonReader(config, sizes.place()));
}

Model with_split_projections(Model model) {
  ModelShape& shape = model.shape;
  if (!shape.fused_query_key_value) return model;
  for (LayerKind& kind : model.inventory.kinds) {
    split(kind.tensors, TensorRole::attention, attention_slices(shape));
    if (shape.fused_gate_up) split(kind.tensors, TensorRole::mlp, gate_slices(shape));
  }
  shape.fused_query_key_value = shape.fused_gate_up = false;
  shape.operators = plain_operators(shape.operators);
  return model;
}

}  // namespace zplan::check
