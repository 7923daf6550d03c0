// Families of image-text models: how their configs are read, what their tensors are called, how their
// processors count. Source: transformers 5.23 models/*/configuration_*.py, modeling_*.py; bounds of images:
// preprocessor_config.json of the published models.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"
#include "models/vision/families.h"

namespace zplan {

namespace {

using architectures::Descriptor;
using architectures::LinearLayer;
using architectures::norm;
using architectures::plain;
using Tensors = std::vector<Tensor>;

struct Family {
  std::string_view model_type, text_type;
  std::string_view prefix;  ///< of the language model's tensors
  Vision (*read)(const JsonReader& config, const JsonReader& tower, std::int64_t text_width);
};

/// A width, or pixels.
std::int64_t whole(const JsonReader& config, std::string_view key, std::int64_t otherwise) {
  return config.integer_or(key, otherwise, 1, architectures::kWidest);
}

std::int64_t layer_count(const JsonReader& config, std::string_view key, std::int64_t otherwise) {
  return config.integer_or(key, otherwise, 1, architectures::kMostLayers);
}

/// Patches along a side, frames, channels: what sizes are multiplied by.
std::int64_t factor(const JsonReader& config, std::string_view key, std::int64_t otherwise) {
  constexpr std::int64_t kMost = 1024;
  return config.integer_or(key, otherwise, 1, kMost);
}

TowerActivation activation(const JsonReader& tower, std::string_view otherwise) {
  const std::string given = tower.text_or("hidden_act", otherwise);
  if (given == "silu") return TowerActivation::silu;
  if (given == "quick_gelu") return TowerActivation::quick_gelu;
  if (given.starts_with("gelu")) return TowerActivation::gelu;
  tower.at("hidden_act").fail(in_quotes(given), "accepted: silu, quick_gelu, gelu, gelu_pytorch_tanh");
}

/// Heads divide the width.
void check_heads(const JsonReader& tower, const TowerShape& shape) {
  if (shape.hidden_size % shape.heads != 0)
    tower.fail(fmt::format("{} heads of a tower of width {}", shape.heads, shape.hidden_size),
               "accepted: heads that divide the width");
}

TowerNames qwen_names() {
  return {.tower = "model.visual",
          .patches = "patch_embed.proj",
          .positions = {},
          .class_token = {},
          .norm_before = {},
          .norm_behind = {},
          .blocks = "blocks",
          .norm1 = "norm1",
          .norm2 = "norm2",
          .attention = "attn",
          .input = "attn.qkv",
          .output = "attn.proj",
          .feed_forward = "mlp",
          .gate = "mlp.gate_proj",
          .up = "mlp.up_proj",
          .down = "mlp.down_proj",
          .projector = "model.visual.merger"};
}

/// Sides in whole tokens; pixels as the published processors bound them.
ImageRule qwen_rule(const TowerShape& tower) {
  return {.kind = TokenRule::resized,
          .unit = tower.patch_size * tower.merge,
          .least = 56 * 56,
          .most = 12'845'056,
          .source = "3136 to 12,845,056 pixels, as the published preprocessor_config.json has it"};
}

Vision qwen2_5_vl(const JsonReader&, const JsonReader& tower, std::int64_t text_width) {
  Vision vision{.text_width = text_width};
  TowerShape& shape = vision.tower;
  shape = {.layers = layer_count(tower, "depth", 32),
           .hidden_size = whole(tower, "hidden_size", 3584),
           .intermediate_size = whole(tower, "intermediate_size", 3420),
           .heads = whole(tower, "num_heads", 16),
           .channels = factor(tower, "in_channels", 3),
           .patch_size = factor(tower, "patch_size", 14),
           .frames = factor(tower, "temporal_patch_size", 2),
           .merge = factor(tower, "spatial_merge_size", 2),
           .activation = activation(tower, "silu"),
           .rms_norm = true,
           .gated = true,
           .window_size = whole(tower, "window_size", 112)};
  shape.whole_layers = {7, 15, 23, 31};
  if (const auto given = tower.find("fullatt_block_indexes")) {
    shape.whole_layers.clear();
    for (const JsonReader& each : given->items())
      shape.whole_layers.push_back(each.integer(0, architectures::kMostLayers));
  }
  vision.names = qwen_names();
  vision.rule = qwen_rule(shape);
  return vision;
}

Vision qwen2_vl(const JsonReader&, const JsonReader& tower, std::int64_t text_width) {
  Vision vision{.text_width = text_width};
  TowerShape& shape = vision.tower;
  const std::int64_t width = whole(tower, "embed_dim", 1280);
  const auto ratio = tower.find("mlp_ratio");
  const double times = ratio ? ratio->number(0.1, 64) : 4;
  shape = {.layers = layer_count(tower, "depth", 32),
           .hidden_size = width,
           .intermediate_size = static_cast<std::int64_t>(static_cast<double>(width) * times),
           .heads = whole(tower, "num_heads", 16),
           .channels = factor(tower, "in_channels", 3),
           .patch_size = factor(tower, "patch_size", 14),
           .frames = factor(tower, "temporal_patch_size", 2),
           .merge = factor(tower, "spatial_merge_size", 2),
           .activation = activation(tower, "quick_gelu")};
  vision.names = qwen_names();
  vision.names.up = "mlp.fc1", vision.names.down = "mlp.fc2";
  vision.rule = qwen_rule(shape);
  return vision;
}

TowerNames clip_names() {
  return {.tower = "model.vision_tower",
          .patches = "embeddings.patch_embedding",
          .positions = "embeddings.position_embedding",
          .class_token = {},
          .norm_before = {},
          .norm_behind = "post_layernorm",
          .blocks = "encoder.layers",
          .norm1 = "layer_norm1",
          .norm2 = "layer_norm2",
          .attention = "self_attn",
          .input = {},
          .output = "self_attn.out_proj",
          .feed_forward = "mlp",
          .gate = {},
          .up = "mlp.fc1",
          .down = "mlp.fc2",
          .projector = "model.multi_modal_projector"};
}

/// SigLIP's and CLIP's tower, of defaults by the caller.
TowerShape clip_tower(const JsonReader& tower, TowerShape otherwise, std::int64_t image_size) {
  otherwise.layers = layer_count(tower, "num_hidden_layers", otherwise.layers);
  otherwise.hidden_size = whole(tower, "hidden_size", otherwise.hidden_size);
  otherwise.intermediate_size = whole(tower, "intermediate_size", otherwise.intermediate_size);
  otherwise.heads = whole(tower, "num_attention_heads", otherwise.heads);
  otherwise.channels = factor(tower, "num_channels", 3);
  otherwise.patch_size = factor(tower, "patch_size", otherwise.patch_size);
  const std::int64_t side = image_size / otherwise.patch_size;
  if (side == 0) tower.fail("patches larger than images", "accepted: a patch_size up to image_size");
  otherwise.positions = side * side + (otherwise.class_token ? 1 : 0);
  otherwise.attention = TowerAttention::padded;
  return otherwise;
}

Vision gemma3(const JsonReader& config, const JsonReader& tower, std::int64_t text_width) {
  Vision vision{.projector = Projector::pooled, .text_width = text_width, .bidirectional = true};
  const std::int64_t image_size = whole(tower, "image_size", 224);
  vision.tower = clip_tower(tower,
                            {.layers = 12,
                             .hidden_size = 768,
                             .intermediate_size = 3072,
                             .heads = 12,
                             .patch_size = 16,
                             .activation = activation(tower, "gelu_pytorch_tanh"),
                             .patch_bias = true,
                             .norm_behind = true},
                            image_size);
  const std::int64_t tokens = whole(config, "mm_tokens_per_image", 256);
  while (vision.tokens_per_side * vision.tokens_per_side < tokens) ++vision.tokens_per_side;
  if (vision.tokens_per_side > image_size / vision.tower.patch_size)
    config.fail(fmt::format("{} tokens of {} patches", tokens, vision.tower.positions),
                "accepted: at most as many tokens as patches");
  vision.names = clip_names();
  vision.rule = {.kind = TokenRule::fixed,
                 .unit = image_size,
                 .tokens = tokens,
                 .source = fmt::format("every image is resized to {0}x{0}, {1} tokens", image_size, tokens)};
  return vision;
}

Vision llava(const JsonReader& config, const JsonReader& tower, std::int64_t text_width) {
  Vision vision{.projector = Projector::two_layers, .text_width = text_width};
  if (const std::string type = tower.text_or("model_type", "clip_vision_model"); type != "clip_vision_model")
    tower.at("model_type").fail(in_quotes(type), "accepted: clip_vision_model");
  const std::int64_t image_size = whole(tower, "image_size", 336);
  vision.tower = clip_tower(tower,
                            {.layers = 24,
                             .hidden_size = 1024,
                             .intermediate_size = 4096,
                             .heads = 16,
                             .patch_size = 14,
                             .activation = activation(tower, "quick_gelu"),
                             .class_token = true,
                             .norm_before = true,
                             .norm_behind = true},
                            image_size);
  const auto layer = config.find("vision_feature_layer");
  const std::int64_t feature = layer ? layer->integer(-vision.tower.layers, -1) : -2;
  vision.tower.unused_layers = -feature - 1;
  const std::string strategy = config.text_or("vision_feature_select_strategy", "default");
  if (strategy != "default" && strategy != "full")
    config.at("vision_feature_select_strategy").fail(in_quotes(strategy), "accepted: default, full");
  vision.names = clip_names();
  vision.names.class_token = "embeddings.class_embedding", vision.names.norm_before = "pre_layrnorm";
  const std::int64_t patches = vision.tower.positions - (strategy == "default" ? 1 : 0);
  vision.rule = {.kind = TokenRule::fixed,
                 .unit = image_size,
                 .tokens = patches,
                 .source = fmt::format("every image is resized to {0}x{0}, {1} tokens", image_size, patches)};
  return vision;
}

constexpr std::array kFamilies{
    Family{"qwen2_5_vl", "qwen2", "model.language_model.", qwen2_5_vl},
    Family{"qwen2_vl", "qwen2", "model.language_model.", qwen2_vl},
    Family{"gemma3", "gemma3_text", "model.language_model.", gemma3},
    Family{"llava", "", "model.language_model.", llava},
};

const Family* family_of(const std::string& model_type) {
  const auto found =
      std::ranges::find_if(kFamilies, [&](const Family& each) { return each.model_type == model_type; });
  return found == kFamilies.end() ? nullptr : &*found;
}

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

/// Keys, values and queries in the order in which the module makes them. SigLIP lists its first norm in
/// front of attention and its second behind it, CLIP both behind what they are not in front of.
Tensors padded_block(const TowerShape& shape, const TowerNames& names, const std::string& block) {
  const std::int64_t h = shape.hidden_size, f = shape.intermediate_size;
  const bool norm_first = !shape.class_token;
  Tensors list, attention, feed_forward;
  for (const char* each : {".k_proj", ".v_proj", ".q_proj"})
    append(attention, layer(block + names.attention + each, h, h, TensorRole::attention));
  append(attention, layer(block + names.output, h, h, TensorRole::attention));
  append(feed_forward, layer(block + names.up, h, f, TensorRole::mlp));
  append(feed_forward, layer(block + names.down, f, h, TensorRole::mlp));
  const auto with_norm = [&](const std::string& which, Tensors part) {
    if (norm_first) append(list, norm(block + which, h, true));
    append(list, std::move(part));
    if (!norm_first) append(list, norm(block + which, h, true));
  };
  with_norm(names.norm1, std::move(attention));
  with_norm(names.norm2, std::move(feed_forward));
  return list;
}

Tensors projector_tensors(const Vision& vision) {
  const TowerShape& tower = vision.tower;
  const std::string& path = vision.names.projector;
  const std::int64_t h = tower.hidden_size;
  Tensors list;
  switch (vision.projector) {
    case Projector::merger: {
      const std::int64_t wide = h * tower.merge * tower.merge;
      append(list, norm(path + ".ln_q", h, !tower.rms_norm));
      append(list, layer(path + ".mlp.0", wide, wide, TensorRole::mlp));
      append(list, layer(path + ".mlp.2", wide, vision.text_width, TensorRole::mlp));
      break;
    }
    case Projector::pooled:
      list.push_back(plain(path + ".mm_input_projection_weight", {h, vision.text_width}, TensorRole::other));
      append(list, norm(path + ".mm_soft_emb_norm", h));
      break;
    case Projector::two_layers:
      append(list, layer(path + ".linear_1", h, vision.text_width, TensorRole::other));
      append(list, layer(path + ".linear_2", vision.text_width, vision.text_width, TensorRole::other));
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

Tensors vision_tensors(const Vision& vision) {
  const TowerShape& tower = vision.tower;
  const TowerNames& names = vision.names;
  const std::string root = names.tower + ".";
  Tensors list;
  if (tower.class_token)
    list.push_back(plain(root + names.class_token, {tower.hidden_size}, TensorRole::other));
  std::vector<std::int64_t> patch{tower.hidden_size, tower.channels};
  if (tower.frames > 1) patch.push_back(tower.frames);
  patch.insert(patch.end(), 2, tower.patch_size);
  list.push_back(plain(root + names.patches + ".weight", patch, TensorRole::other));
  if (tower.patch_bias)
    list.push_back(plain(root + names.patches + ".bias", {tower.hidden_size}, TensorRole::other));
  if (tower.positions > 0)
    list.push_back(
        plain(root + names.positions + ".weight", {tower.positions, tower.hidden_size}, TensorRole::other));
  if (tower.norm_before) append(list, norm(root + names.norm_before, tower.hidden_size, true));
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

/// What LlamaConfig has where a file leaves it out.
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

std::optional<Model> language_model(const JsonReader& config, const Family& family) {
  const JsonReader own = text_part(config);
  Json filled = own.raw();
  if (family.text_type.empty()) fill_in_llama(filled);
  const JsonReader text(filled, own.place());
  const std::string type =
      family.text_type.empty() ? text.text_or("model_type", "llama") : std::string(family.text_type);
  const Descriptor* found = descriptor(type);
  if (found == nullptr) return std::nullopt;
  Descriptor about = *found;
  about.sizes.default_tied = config.boolean_or("tie_word_embeddings", about.sizes.default_tied);
  Model model = about.read(text, about);
  model.shape.architecture = family.model_type;
  return model;
}

}  // namespace

std::optional<Model> image_text_model(const JsonReader& config) {
  const Family* family = family_of(config.text_or("model_type", ""));
  if (family == nullptr || !config.has("vision_config")) return std::nullopt;
  std::optional<Model> model = language_model(config, *family);
  if (!model) return std::nullopt;
  const JsonReader tower = config.at("vision_config");
  const Vision vision = family->read(config, tower, model->shape.hidden_size);
  check_heads(tower, vision.tower);
  rename(model->inventory, family->prefix);
  Tensors before = vision_tensors(vision);
  append(before, std::move(model->inventory.before));
  model->inventory.before = std::move(before);
  model->vision = std::make_shared<Vision>(vision);
  return model;
}

namespace {

/// The side of a tower's images, which some files give as two.
std::int64_t image_side(const JsonReader& tower, std::int64_t otherwise) {
  const auto given = tower.find("image_size");
  if (!given || !given->raw().is_array()) return whole(tower, "image_size", otherwise);
  const std::vector<JsonReader> sides = given->items();
  return sides.empty() ? otherwise : sides.front().integer(1, architectures::kWidest);
}

ImageRule qwen3_rule(const JsonReader&, const JsonReader& tower) {
  return {.kind = TokenRule::resized,
          .unit = factor(tower, "patch_size", 16) * factor(tower, "spatial_merge_size", 2),
          .least = 65'536,
          .most = 16'777'216,
          .source = "65,536 to 16,777,216 pixels, as the published preprocessor_config.json has it"};
}

ImageRule internvl_rule(const JsonReader& config, const JsonReader& tower) {
  return {.kind = TokenRule::tiles,
          .unit = image_side(tower, 448),
          .least = 1,
          .most = 12,
          .tokens = whole(config, "image_seq_length", 256),
          .source = "1 to 12 tiles and a thumbnail"};
}

ImageRule idefics3_rule(const JsonReader& config, const JsonReader& tower) {
  const std::int64_t side = image_side(tower, 364), patches = side / factor(tower, "patch_size", 14);
  const std::int64_t along = factor(config, "scale_factor", 2);
  return {.kind = TokenRule::squares,
          .unit = side,
          .most = 4 * side,
          .tokens = std::max<std::int64_t>(1, patches * patches / (along * along)),
          .source = "squares of the tower's side, four along the longest, and the whole image"};
}

ImageRule mistral3_rule(const JsonReader& config, const JsonReader& tower) {
  return {.kind = TokenRule::longest,
          .unit = factor(tower, "patch_size", 14) * factor(config, "spatial_merge_size", 2),
          .most = image_side(tower, 1540),
          .row_ends = true,
          .source = "the longest side within image_size, a token more for each row"};
}

struct RuleOnly {
  std::string_view model_type;
  ImageRule (*read)(const JsonReader& config, const JsonReader& tower);
};

constexpr std::array kRules{RuleOnly{"qwen3_vl", qwen3_rule},    RuleOnly{"qwen3_vl_moe", qwen3_rule},
                            RuleOnly{"internvl", internvl_rule}, RuleOnly{"idefics3", idefics3_rule},
                            RuleOnly{"smolvlm", idefics3_rule},  RuleOnly{"mistral3", mistral3_rule}};

}  // namespace

std::optional<ImageRule> image_rule(const JsonReader& config) {
  const std::string type = config.text_or("model_type", "");
  for (const RuleOnly& each : kRules)
    if (each.model_type == type && config.has("vision_config"))
      return each.read(config, config.at("vision_config"));
  return std::nullopt;
}

std::vector<std::string> image_text_architectures() {
  std::vector<std::string> names;
  for (const Family& each : kFamilies) names.emplace_back(each.model_type);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace zplan
