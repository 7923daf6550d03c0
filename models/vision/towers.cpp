#include "models/vision/towers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/analogy.h"
#include "models/architectures/parts.h"
#include "models/base/embedded.h"
#include "models/config.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> tower_inventories;
}

namespace {

using Tensors = std::vector<Tensor>;

constexpr std::int64_t kMostTowerSize = std::int64_t{1} << 40;
constexpr std::size_t kMostTowerTensors = std::size_t{1} << 20;
constexpr std::array<std::string_view, 3> kTextKeys{"text_config", "llm_config", "language_config"};

/// Returns a member of an object, or of a list by its number; null where there is none.
const Json* member(const Json& object, std::string_view key) {
  if (object.is_array() && key.size() == 1 && key[0] >= '0' && key[0] <= '9') {
    const auto at = static_cast<std::size_t>(key[0] - '0');
    return at < object.size() ? &object[at] : nullptr;
  }
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// Returns what a path of keys leads to; null where it leads nowhere.
const Json* at_path(const Json& config, std::string_view path) {
  const Json* at = &config;
  while (at != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    at = member(*at, path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return at;
}

/// Returns the language model's part of a multimodal config; null where there is none.
const Json* text_of(const Json& config) {
  for (const std::string_view key : kTextKeys)
    if (const Json* found = member(config, key); found != nullptr && found->is_object()) return found;
  return nullptr;
}

/// Gives every field that an inventory uses its value: the config's, or the default of transformers' class.
class TowerFields {
 public:
  TowerFields(const JsonReader& config, const Json& document, const ModelShape& text)
      : config_(config), document_(document), text_(text) {}

  /// Returns the number that a field holds: of a list its first, of "#list" its length.
  [[nodiscard]] double value(const std::string& name) const {
    if (name == "text_config.hidden_size") return static_cast<double>(text_.hidden_size);
    if (name == "text_config.intermediate_size") return static_cast<double>(text_.intermediate_size);
    if (name == "text_config.vocab_size") return static_cast<double>(text_.vocabulary_size);
    if (name == "text_config.num_hidden_layers") return static_cast<double>(text_.layers);
    const bool is_length = name.starts_with('#');
    const Json* found = given(is_length ? name.substr(1) : name);
    if (found != nullptr && is_length && found->is_array()) return static_cast<double>(found->size());
    if (found != nullptr && !is_length) {
      const Json& number = found->is_array() && !found->empty() ? found->front() : *found;
      if (number.is_boolean()) return number.get<bool>() ? 1 : 0;
      if (number.is_number()) return number.get<double>();
      config_.fail(fmt::format("{} {}", name, number.dump()), "accepted: a number");
    }
    const Json& otherwise = document_.at("defaults").at(name);
    return otherwise.is_boolean() ? (otherwise.get<bool>() ? 1 : 0) : otherwise.get<double>();
  }

  [[nodiscard]] std::int64_t size(const Json& expression) const {
    const double found = evaluated(expression);
    if (!(found >= 0 && found <= static_cast<double>(kMostTowerSize)))
      config_.fail(fmt::format("a size of {:.4g} in its tower", found), "accepted: up to 2^40");
    return static_cast<std::int64_t>(found);
  }

 private:
  [[nodiscard]] const Json* given(const std::string& name) const {
    if (const Json* found = at_path(config_.raw(), name)) return found;
    for (const auto& [other, own] : document_.at("aliases").items())
      if (own == name)
        if (const Json* found = at_path(config_.raw(), other)) return found;
    return nullptr;
  }

  [[nodiscard]] double evaluated(const Json& e) const {
    if (e.is_number()) return e.get<double>();
    const auto& sign = e.at(0).get_ref<const std::string&>();
    if (sign == "f") return value(e.at(1).get<std::string>());
    double result = evaluated(e.at(1));
    if (sign == "//") {
      const double by = evaluated(e.at(2));
      if (by == 0) config_.fail("a division by 0 in its tower", "accepted: sizes above 0");
      return std::floor(result / by);
    }
    for (std::size_t i = 2; i < e.size(); ++i)
      result = sign == "*" ? result * evaluated(e.at(i)) : result + evaluated(e.at(i));
    return std::floor(result);
  }

  const JsonReader& config_;
  const Json& document_;
  const ModelShape& text_;
};

/// Makes the tensors of an inventory, those behind the language model apart.
class TowerMaker {
 public:
  TowerMaker(const JsonReader& config, const Json& document, const ModelShape& text)
      : config_(config), fields_(config, document, text) {
    for (const Json& each : document.at("tensors")) add(each, "");
  }
  Tensors before, after;

 private:
  void add(const Json& entry, const std::string& prefix) {
    if (entry.is_array()) return add_tensor(entry, prefix);
    if (const Json* when = member(entry, "when")) {
      if ((fields_.value(when->get<std::string>()) != 0) != entry.at("is").get<bool>()) return;
      for (const Json& each : entry.at("tensors")) add(each, prefix);
      return;
    }
    const std::int64_t count = fields_.size(entry.at("count"));
    for (std::int64_t i = 0; i < count; ++i)
      for (const Json& each : entry.at("tensors"))
        add(each, fmt::format("{}{}{}.", prefix, entry.at("loop").get<std::string>(), i));
  }

  void add_tensor(const Json& entry, const std::string& prefix) {
    const auto& name = entry.at(0).get_ref<const std::string&>();
    if (name == "<text>") {
      behind_ = true;
      return;
    }
    if (before.size() + after.size() == kMostTowerTensors)
      config_.fail("sizes that make more than 2^20 tensors", "accepted: fewer layers in its tower");
    std::vector<std::int64_t> shape;
    double elements = 1;
    for (const Json& each : entry.at(1)) {
      shape.push_back(fields_.size(each));
      elements *= static_cast<double>(std::max<std::int64_t>(1, shape.back()));
    }
    if (elements > kMostParameters)
      config_.fail(fmt::format("a tensor of {:.3g} elements", elements), "accepted: at most 2^60");
    Tensor made = architectures::plain(prefix + name, std::move(shape), TensorRole::other);
    made.idle = true;
    if (entry.size() > 2) made.linear = Linear{.in_features = made.shape[1], .out_features = made.shape[0]};
    (behind_ ? after : before).push_back(std::move(made));
  }

  const JsonReader& config_;
  TowerFields fields_;
  bool behind_{};
};

/// "llava_next" of "vision/towers/llava_next@siglip_vision_model.json".
std::string_view tower_file_architecture(const embedded::EmbeddedFile& file) {
  std::string_view name = file.name;
  name.remove_prefix(name.rfind('/') + 1);
  name = name.substr(0, name.rfind('.'));
  return name.substr(0, name.find('@'));
}

/// True if the config has the kind of tower, and the values that change which tensors there are, as
/// described.
bool is_described(const Json& config, const Json& document) {
  if (const Json* inside = member(document, "inside"); inside != nullptr)
    if (member(config, inside->get<std::string>()) == nullptr) return false;
  for (const auto& [name, value] : document.at("fixed").items()) {
    if (name.starts_with('#')) {
      const Json* list = at_path(config, std::string_view(name).substr(1));
      if (list != nullptr && list->is_array() && list->size() != value.get<std::size_t>()) return false;
    } else if (const Json* found = at_path(config, name); found != nullptr && *found != value) {
      return false;
    }
  }
  if (const auto audio = document.find("audio"); audio != document.end())
    if ((member(config, "audio_config") == nullptr) != audio->is_null()) return false;
  const Json* type = at_path(config, "vision_config.model_type");
  const Json& own = document.at("tower");
  return type == nullptr || *type == "" || own.is_null() || *type == own;
}

std::optional<Json> tower_document(const Json& config) {
  const Json* type = member(config, "model_type");
  if (type == nullptr || !type->is_string()) return std::nullopt;
  for (const embedded::EmbeddedFile& file : embedded::tower_inventories) {
    if (tower_file_architecture(file) != type->get_ref<const std::string&>()) continue;
    Json document = parse_json(file.text, std::string(file.name));
    if (is_described(config, document)) return document;
  }
  return std::nullopt;
}

/// Returns the language model's part of a config; of one that has the tower inside, as Qwen-VL's, the rest.
std::optional<Json> text_part(const Json& config, const Json& document) {
  if (const Json* inside = member(document, "inside"); inside != nullptr) {
    Json text = config;
    text.erase(inside->get<std::string>());
    return text;
  }
  const Json* text = text_of(config);
  return text == nullptr ? std::nullopt : std::optional<Json>(*text);
}

/// Returns the language model's config: what the whole config says of the head counts, else its own, else
/// what transformers' class says.
Json text_config(const Json& config, const Json& document, Json text) {
  for (const auto& [key, value] : document.at("text_defaults").items()) {
    const Json* type = member(text, "model_type");
    if (type != nullptr && *type != document.at("text_defaults").at("model_type")) break;
    if (!text.contains(key)) text[key] = value;
  }
  if (const Json* type = member(document, "text_type")) text["model_type"] = *type;
  constexpr const char* kTied = "tie_word_embeddings";
  const Json* tied = document.at("head_is_the_texts") == true ? nullptr : member(config, kTied);
  if (tied != nullptr && tied->is_boolean())
    text[kTied] = *tied;
  else if (!text.contains(kTied) && !document.at("tied").is_null())
    text[kTied] = document.at("tied");
  return text;
}

/// Names tensors of the language model as the whole calls them. `path`: of the model without its head.
void rename_text(Inventory& inventory, const std::string& path) {
  constexpr std::string_view kOwn = "model.", kInner = ".model";
  const bool holds_head = path.ends_with(kInner);
  const std::string around = holds_head ? path.substr(0, path.size() - kInner.size()) + "." : "";
  const auto over = [&](Tensors& list) {
    for (Tensor& each : list) {
      if (each.name.starts_with(kOwn))
        each.name.replace(0, kOwn.size(), path + ".");
      else
        each.name.insert(0, around);
    }
  };
  over(inventory.before), over(inventory.after);
  for (LayerKind& kind : inventory.kinds) over(kind.tensors);
}

/// Returns the tensors of a layer that attends to an image, of those of a Llama's layer.
/// Source: transformers 5.23 models/mllama/modeling_mllama.py MllamaCrossAttentionDecoderLayer.
Tensors cross_attention_layer(const Tensors& own, std::int64_t head_size) {
  constexpr std::string_view kSelf = ".self_attn.", kCross = ".cross_attn.";
  const std::string& first = own.front().name;
  const std::string layer = first.substr(0, first.find("{}.") + 3);
  Tensors made;
  for (const char* gate : {"cross_attn_attn_gate", "cross_attn_mlp_gate"})
    made.push_back(architectures::plain(layer + gate, {1}, TensorRole::other));
  for (Tensor each : own) {
    const std::size_t at = each.name.find(kSelf);
    if (at == std::string::npos) continue;
    each.name.replace(at, kSelf.size(), kCross);
    made.push_back(std::move(each));
  }
  for (const char* each : {"cross_attn.q_norm", "cross_attn.k_norm"})
    for (Tensor& weight : architectures::norm(layer + each, head_size)) made.push_back(std::move(weight));
  for (const bool norm_first : {true, false})
    for (const Tensor& each : own) {
      const bool is_first = each.name.find("input_layernorm") != std::string::npos;
      if (is_first == norm_first && each.name.find(kSelf) == std::string::npos) made.push_back(each);
    }
  return made;
}

/// Gives mllama's language model its layers of cross-attention, and the rows of its special tokens.
void add_cross_attention(Model& model, const Json& text) {
  constexpr std::int64_t kSpecialTokens = 8;
  std::vector<std::int64_t> places{3, 8, 13, 18, 23, 28, 33, 38};
  if (const Json* given = member(text, "cross_attention_layers"); given != nullptr && given->is_array()) {
    places.clear();
    for (const Json& each : *given)
      if (each.is_number_integer()) places.push_back(each.get<std::int64_t>());
  }
  Inventory& inventory = model.inventory;
  const std::size_t cross = inventory.kinds.size();
  inventory.kinds.push_back(
      {"cross_attention", cross_attention_layer(inventory.kinds.front().tensors, model.shape.head_size)});
  for (const std::int64_t place : places)
    if (place >= 0 && place < static_cast<std::int64_t>(inventory.layers.size()))
      inventory.layers[static_cast<std::size_t>(place)] = cross;
  inventory.before.front().shape.front() += kSpecialTokens;
}

}  // namespace

// Reads an Omni model as its thinker, which is what trains.
std::optional<Model> model_with_idle_towers(const JsonReader& config) {
  if (config.has("thinker_config")) return model_with_idle_towers(config.at("thinker_config"));
  const std::optional<Json> document = tower_document(config.raw());
  std::optional<Json> part = document ? text_part(config.raw(), *document) : std::nullopt;
  if (!part) return std::nullopt;
  const Json text = text_config(config.raw(), *document, *std::move(part));
  Model model;
  try {
    model = read_config(JsonReader(text, config.place()));
  } catch (const InputError&) {
    return std::nullopt;
  }
  if (document->at("architecture") == "mllama") {
    model.analogue = std::make_shared<const Model>(model);  // without layers of cross-attention
    add_cross_attention(model, text);
  }
  TowerMaker towers(config, *document, model.shape);
  if (model.recorded) {
    auto recorded = std::make_shared<Model>(model);
    // Another analogue stands for micro-steps that the language model was not recorded in.
    if (!recorded->analogue) recorded->analogue = std::make_shared<const Model>(analogue_of(model.shape));
    model.analogue = std::move(recorded);
    model.recorded.reset();
  }
  model.shape.architecture = config.text_or("model_type", "");
  // Other libraries know the language model's mixture by a name that the whole model does not have.
  model.shape.libraries = {.autotp_refuses = model.shape.libraries.autotp_refuses};
  Inventory& inventory = model.inventory;
  rename_text(inventory, document->at("text").get<std::string>());
  inventory.before.insert(inventory.before.begin(), std::make_move_iterator(towers.before.begin()),
                          std::make_move_iterator(towers.before.end()));
  std::ranges::move(towers.after, std::back_inserter(inventory.after));
  return model;
}

std::vector<std::string> architectures_with_idle_towers() {
  std::vector<std::string> names;
  for (const embedded::EmbeddedFile& file : embedded::tower_inventories)
    names.emplace_back(tower_file_architecture(file));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace zplan
