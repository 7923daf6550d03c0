// Image-text models: the tensors of tower and projector, and the language model inside.
// Source: transformers 5.23 models/*/modeling_*.py.
#include "models/architectures/image_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"
#include "models/config.h"

namespace zplan {

namespace {

using architectures::Descriptor;
using architectures::image_text_family;
using architectures::ImageTextFamily;
using architectures::norm;
using architectures::plain;
using Tensors = std::vector<Tensor>;

// ---- tensors ----------------------------------------------------------------------------------------------

void append(Tensors& list, Tensors more) {
  list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Tensors layer(const std::string& path, std::int64_t in, std::int64_t out, TensorRole role, bool bias = true) {
  return architectures::linear({.path = path, .in = in, .out = out, .bias = bias, .role = role});
}

Tensors packed_block(const TowerShape& shape, const TowerNames& names, const std::string& block) {
  const std::int64_t h = shape.hidden_size, f = shape.intermediate_size;
  Tensors list;
  for (const std::string& each : {names.norm1, names.norm2})
    append(list, norm(block + each, h, !shape.rms_norm));
  append(list, layer(block + names.input, h, 3 * h, TensorRole::attention));
  append(list, layer(block + names.output, h, h, TensorRole::attention));
  if (shape.gated) append(list, layer(block + names.gate, h, f, TensorRole::mlp));
  append(list, layer(block + names.up, h, f, TensorRole::mlp));
  append(list, layer(block + names.down, f, h, TensorRole::mlp));
  return list;
}

/// Keys, values and queries in the order in which the module makes them.
Tensors attention_tensors(const TowerShape& shape, const TowerNames& names, const std::string& block) {
  const std::int64_t h = shape.hidden_size;
  std::vector<const char*> order{".k_proj", ".v_proj", ".q_proj"};
  if (shape.layer_scale) order = {".q_proj", ".k_proj", ".v_proj"};
  Tensors list;
  for (const char* each : order)
    append(list, layer(block + names.attention + each, h, h, TensorRole::attention, shape.biased));
  append(list, layer(block + names.output, h, h, TensorRole::attention, shape.output_biased));
  if (!shape.query_key_norm) return list;
  for (const char* each : {".q_norm", ".k_norm"}) append(list, norm(block + names.attention + each, h));
  return list;
}

Tensors feed_forward_tensors(const TowerShape& shape, const TowerNames& names, const std::string& block) {
  const std::int64_t h = shape.hidden_size, f = shape.intermediate_size;
  const bool biased = !shape.gated;
  Tensors list;
  if (shape.gated) append(list, layer(block + names.gate, h, f, TensorRole::mlp, biased));
  append(list, layer(block + names.up, h, f, TensorRole::mlp, biased));
  append(list, layer(block + names.down, f, h, TensorRole::mlp, biased));
  return list;
}

/// Returns a block's tensors in the order of the tower's code: SigLIP lists its first norm before attention
/// and its second after it, CLIP each norm after the part it precedes, InternVL its scales first and its
/// norms last, Pixtral the feed-forward before attention.
Tensors padded_block(const TowerShape& shape, const TowerNames& names, const std::string& block) {
  const auto norm_named = [&](const std::string& which) {
    return norm(block + which, shape.hidden_size, !shape.rms_norm);
  };
  Tensors first = norm_named(names.norm1), second = norm_named(names.norm2);
  Tensors attention = attention_tensors(shape, names, block);
  Tensors feed_forward = feed_forward_tensors(shape, names, block);
  Tensors list;
  const auto in_order = [&](std::initializer_list<Tensors*> parts) {
    for (Tensors* each : parts) append(list, std::move(*each));
  };
  if (shape.layer_scale) {
    for (const std::string& each : {names.scale1, names.scale2})
      list.push_back(plain(block + each, {shape.hidden_size}, TensorRole::other));
    in_order({&attention, &feed_forward, &first, &second});
  } else if (shape.attention == TowerAttention::joined) {
    in_order({&first, &feed_forward, &attention, &second});
  } else if (names.norm_first) {
    in_order({&first, &attention, &second, &feed_forward});
  } else {
    in_order({&attention, &first, &feed_forward, &second});
  }
  return list;
}

/// A norm and two layers over merged patches; `behind_shuffle`: the norm is over all of them.
Tensors merger_tensors(const Vision& vision, const std::string& path, bool behind_shuffle) {
  const TowerShape& tower = vision.tower;
  const TowerNames& names = vision.names;
  const std::int64_t h = tower.hidden_size, wide = h * tower.merge * tower.merge;
  Tensors list;
  append(list, norm(path + "." + names.merger_norm, behind_shuffle ? wide : h, !tower.rms_norm));
  const std::string below = path + names.merger_layers + ".";
  append(list, layer(below + names.merger_first, wide, wide, TensorRole::mlp));
  append(list, layer(below + names.merger_second, wide, vision.text_width, TensorRole::mlp));
  return list;
}

/// Two layers to the language model's width.
Tensors two_layer_tensors(const Vision& vision, std::int64_t in) {
  const std::string& path = vision.names.projector;
  const std::int64_t out = vision.text_width;
  Tensors list = layer(path + ".linear_1", in, out, TensorRole::other, vision.projector_biased);
  append(list, layer(path + ".linear_2", out, out, TensorRole::other, vision.projector_biased));
  return list;
}

Tensors projector_tensors(const Vision& vision) {
  const TowerShape& tower = vision.tower;
  const std::string& path = vision.names.projector;
  const std::int64_t h = tower.hidden_size, wide = h * tower.merge * tower.merge;
  Tensors list;
  switch (vision.projector) {
    case Projector::merger:
      append(list, merger_tensors(vision, path, false));
      for (std::size_t i = 0; i < tower.deepstack.size(); ++i)
        append(list, merger_tensors(vision, fmt::format("{}.{}", vision.names.deepstack, i), true));
      break;
    case Projector::pooled:
      list.push_back(plain(path + ".mm_input_projection_weight", {h, vision.text_width}, TensorRole::other));
      append(list, norm(path + ".mm_soft_emb_norm", h));
      break;
    case Projector::two_layers: append(list, two_layer_tensors(vision, h)); break;
    case Projector::shuffled:
      append(list,
             layer(path + ".modality_projection.proj", wide, vision.text_width, TensorRole::other, false));
      break;
    case Projector::shuffled_two_layers:
      append(list, norm(path + ".layer_norm", wide, true));
      append(list, two_layer_tensors(vision, wide));
      break;
    case Projector::unfolded:
      append(list, norm(path + ".norm", h));
      append(list, layer(path + ".patch_merger.merging_layer", wide, h, TensorRole::other, false));
      append(list, two_layer_tensors(vision, h));
      break;
  }
  return list;
}

/// Parts whose output nobody reads get no gradient.
void mark_idle(const Vision& vision, Tensors& list) {
  const TowerShape& tower = vision.tower;
  if (tower.unused_layers == 0) return;
  const std::string root = vision.names.tower + ".";
  for (Tensor& each : list) {
    each.idle = each.name.starts_with(root + vision.names.norm_behind + ".");
    for (std::int64_t i = tower.layers - tower.unused_layers; i < tower.layers; ++i)
      each.idle = each.idle || each.name.starts_with(fmt::format("{}{}.{}.", root, vision.names.blocks, i));
  }
}

std::vector<std::int64_t> class_token_shape(const TowerShape& tower) {
  if (tower.place == TowerPositions::whole) return {1, 1, tower.hidden_size};
  return {tower.hidden_size};
}

Tensors vision_tensors(const Vision& vision) {
  const TowerShape& tower = vision.tower;
  const TowerNames& names = vision.names;
  const std::string root = names.tower + ".";
  Tensors list;
  if (tower.class_token)
    list.push_back(plain(root + names.class_token, class_token_shape(tower), TensorRole::other));
  if (tower.place == TowerPositions::whole)
    list.push_back(plain(root + names.positions, {1, tower.positions, tower.hidden_size}, TensorRole::other));
  std::vector<std::int64_t> patch{tower.hidden_size, tower.channels};
  if (tower.frames > 1) patch.push_back(tower.frames);
  patch.insert(patch.end(), 2, tower.patch_size);
  list.push_back(plain(root + names.patches + ".weight", patch, TensorRole::other));
  if (tower.patch_bias)
    list.push_back(plain(root + names.patches + ".bias", {tower.hidden_size}, TensorRole::other));
  if (tower.positions > 0 && tower.place != TowerPositions::whole)
    list.push_back(
        plain(root + names.positions + ".weight", {tower.positions, tower.hidden_size}, TensorRole::other));
  if (tower.norm_before) append(list, norm(root + names.norm_before, tower.hidden_size, !tower.rms_norm));
  for (std::int64_t i = 0; i < tower.layers; ++i) {
    const std::string block = fmt::format("{}{}.{}.", root, names.blocks, i);
    append(list, tower.attention == TowerAttention::packed ? packed_block(tower, names, block)
                                                           : padded_block(tower, names, block));
  }
  if (tower.norm_behind) append(list, norm(root + names.norm_behind, tower.hidden_size, true));
  append(list, projector_tensors(vision));
  mark_idle(vision, list);
  return list;
}

// ---- language model ---------------------------------------------------------------------------------------

const Descriptor* descriptor(std::string_view model_type) {
  for (const Descriptor& each : architectures::descriptors())
    if (each.model_type == model_type) return &each;
  return nullptr;
}

/// Every tensor but the head as the whole model calls it.
void rename(Inventory& inventory, std::string_view prefix) {
  constexpr std::string_view kOwn = "model.";
  const auto over = [&](Tensors& list) {
    for (Tensor& each : list)
      if (each.name.starts_with(kOwn)) each.name.replace(0, kOwn.size(), prefix);
  };
  over(inventory.before), over(inventory.after);
  for (LayerKind& kind : inventory.kinds) over(kind.tensors);
}

/// The language model's own part; older files have it beside vision_config.
JsonReader text_part(const JsonReader& config) {
  return config.has("text_config") ? config.at("text_config") : config;
}

/// Fills in LlamaConfig's defaults for keys that a file leaves out.
void fill_in_llama(Json& text) {
  const std::string type = text.contains("model_type") ? text["model_type"].dump() : R"("llama")";
  if (type != R"("llama")") return;
  const Json defaults{{"hidden_size", 4096},
                      {"intermediate_size", 11008},
                      {"num_hidden_layers", 32},
                      {"num_attention_heads", 32},
                      {"vocab_size", 32000}};
  for (const auto& [key, value] : defaults.items())
    if (!text.contains(key)) text[key] = value;
}

/// The head is the whole model's: what the whole config says of it counts.
void fill_in_tying(const JsonReader& config, const ImageTextFamily& family, Json& text) {
  constexpr const char* kKey = "tie_word_embeddings";
  if (!config.has(kKey)) return;
  const bool tied = config.boolean_or(kKey, false);
  if (tied || !family.text_may_tie || !text.contains(kKey)) text[kKey] = tied;
}

std::optional<Model> text_model(const JsonReader& config, const ImageTextFamily& family) {
  const JsonReader own = text_part(config);
  Json filled = own.raw();
  if (family.text_type.empty()) fill_in_llama(filled);
  fill_in_tying(config, family, filled);
  const JsonReader text(filled, own.place());
  const std::string type =
      family.text_type.empty() ? text.text_or("model_type", "llama") : std::string(family.text_type);
  const Descriptor* found = descriptor(type);
  if (found == nullptr) return std::nullopt;
  Model model = found->read(text, *found);
  // Other libraries know the language model's mixture by a name that the whole model does not have.
  model.shape.libraries = {.autotp_refuses = model.shape.libraries.autotp_refuses};
  return model;
}

}  // namespace

std::optional<Model> image_text_model(const JsonReader& config) {
  const ImageTextFamily* family = image_text_family(config.text_or("model_type", ""));
  if (family == nullptr || !config.has("vision_config")) return std::nullopt;
  std::optional<Model> model = text_model(config, *family);
  if (!model) return std::nullopt;
  model->shape.architecture = family->model_type;
  const JsonReader tower = config.at("vision_config");
  const Vision vision = family->read(config, tower, model->shape.hidden_size);
  architectures::check_tower(tower, *family, vision);
  rename(model->inventory, family->prefix);
  Tensors before = vision_tensors(vision);
  append(before, std::move(model->inventory.before));
  model->inventory.before = std::move(before);
  model->vision = std::make_shared<Vision>(vision);
  return model;
}

std::optional<Model> language_model(const JsonReader& config) {
  const ImageTextFamily* family = image_text_family(config.text_or("model_type", ""));
  return family == nullptr ? std::nullopt : text_model(config, *family);
}

std::optional<ImageRule> image_rule(const JsonReader& config) {
  const ImageTextFamily* family = image_text_family(config.text_or("model_type", ""));
  if (family == nullptr || !config.has("vision_config")) return std::nullopt;
  return family->read(config, config.at("vision_config"), 1).rule;
}

}  // namespace zplan
