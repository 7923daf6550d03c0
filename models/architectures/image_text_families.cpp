// Families of image-text models: how their configs are read and how their processors count.
// Source: transformers 5.23 models/*/configuration_*.py; bounds of images: preprocessor_config.json of the
// published models.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/architectures/descriptor.h"
#include "models/architectures/image_text.h"
#include "models/config.h"

namespace zplan {

namespace {

using architectures::ImageTextFamily;

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
          .projector = "model.visual.merger",
          .merger_norm = "ln_q",
          .merger_layers = ".mlp",
          .merger_first = "0",
          .merger_second = "2"};
}

/// Sides in whole tokens; pixels as the published processors bound them.
ImageRule qwen_rule(const TowerShape& tower) {
  return {.kind = TokenRule::resized,
          .unit = tower.patch_size * tower.merge,
          .least = 56 * 56,
          .most = 12'845'056,
          .source = "3136 to 12,845,056 pixels, as in the published preprocessor_config.json"};
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
           .pixels = TowerPixels::before_tower,
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
           .activation = activation(tower, "quick_gelu"),
           .pixels = TowerPixels::before_tower};
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
  if (otherwise.place == TowerPositions::rotary) otherwise.place = TowerPositions::rows;
  return otherwise;
}

Vision gemma3(const JsonReader& config, const JsonReader& tower, std::int64_t text_width) {
  if (tower.boolean_or("vision_use_head", true))
    tower.fail("a head that pools patches (vision_use_head)",
               "accepted: \"vision_use_head\": false, as published");
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
  vision.names.norm_first = true;
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

/// The side of a square that some files give as two.
std::int64_t side_of(const JsonReader& tower, std::string_view key, std::int64_t otherwise) {
  const auto given = tower.find(key);
  if (!given || !given->raw().is_array()) return whole(tower, key, otherwise);
  const std::vector<JsonReader> sides = given->items();
  if (sides.empty()) return otherwise;
  const std::int64_t first = sides.front().integer(1, architectures::kWidest);
  for (const JsonReader& each : sides)
    if (each.integer(1, architectures::kWidest) != first) each.fail("sides that differ", "accepted: squares");
  return first;
}

std::int64_t patch_side(const JsonReader& tower, std::int64_t otherwise) {
  constexpr std::int64_t kMost = 1024;
  return std::min(side_of(tower, "patch_size", otherwise), kMost);
}

/// Patches along an image's side, which squares of `merge` of them cover.
std::int64_t patches_along(const JsonReader& tower, std::int64_t side, std::int64_t patch,
                           std::int64_t merge) {
  const std::int64_t along = side / patch;
  if (along == 0) tower.fail("patches larger than images", "accepted: a patch_size up to image_size");
  if (along % merge != 0)
    tower.fail(fmt::format("{} patches along a side, {} of which become a token", along, merge),
               "accepted: sides that they divide");
  return along;
}

// ---- Qwen 3 -----------------------------------------------------------------------------------------------

TowerNames qwen3_names() {
  TowerNames names = qwen_names();
  names.positions = "pos_embed";
  names.up = "mlp.linear_fc1", names.down = "mlp.linear_fc2";
  names.deepstack = "model.visual.deepstack_merger_list";
  names.merger_norm = "norm", names.merger_layers = {};
  names.merger_first = "linear_fc1", names.merger_second = "linear_fc2";
  return names;
}

Vision qwen3_tower(const JsonReader& tower, std::int64_t text_width) {
  Vision vision{.text_width = text_width};
  TowerShape& shape = vision.tower;
  shape = {.layers = layer_count(tower, "depth", 27),
           .hidden_size = whole(tower, "hidden_size", 1152),
           .intermediate_size = whole(tower, "intermediate_size", 4304),
           .heads = whole(tower, "num_heads", 16),
           .channels = factor(tower, "in_channels", 3),
           .patch_size = factor(tower, "patch_size", 16),
           .frames = factor(tower, "temporal_patch_size", 2),
           .merge = factor(tower, "spatial_merge_size", 2),
           .activation = activation(tower, "gelu_pytorch_tanh"),
           .patch_bias = true,
           .pixels = TowerPixels::before_tower,
           .place = TowerPositions::interpolated,
           .input_gradient = InputGradient::none,
           .positions = whole(tower, "num_position_embeddings", 2304)};
  vision.names = qwen3_names();
  vision.rule = {.kind = TokenRule::resized,
                 .unit = shape.patch_size * shape.merge,
                 .least = 65'536,
                 .most = 16'777'216,
                 .source = "65,536 to 16,777,216 pixels, as in the published preprocessor_config.json"};
  return vision;
}

Vision qwen3_vl(const JsonReader&, const JsonReader& tower, std::int64_t text_width) {
  Vision vision = qwen3_tower(tower, text_width);
  TowerShape& shape = vision.tower;
  shape.deepstack = {8, 16, 24};
  if (const auto given = tower.find("deepstack_visual_indexes")) {
    shape.deepstack.clear();
    for (const JsonReader& each : given->items())
      shape.deepstack.push_back(each.integer(0, architectures::kMostLayers));
  }
  for (const std::int64_t each : shape.deepstack)
    if (each >= shape.layers || std::ranges::count(shape.deepstack, each) > 1)
      tower.fail(fmt::format("features of layer {} of {}", each, shape.layers),
                 "accepted: deepstack_visual_indexes of its layers, each once");
  return vision;
}

/// Returns Qwen 3.5's tower: Qwen 3's, whose inner layers feed nothing else.
Vision qwen3_5(const JsonReader&, const JsonReader& tower, std::int64_t text_width) {
  if (const auto given = tower.find("deepstack_visual_indexes"); given && !given->items().empty())
    given->fail("features of inner layers", "accepted: none, as in Qwen3.5");
  return qwen3_tower(tower, text_width);
}

// ---- InternVL ---------------------------------------------------------------------------------------------

TowerNames internvl_names() {
  TowerNames names = clip_names();
  names.patches = "embeddings.patch_embeddings.projection";
  names.positions = "embeddings.position_embeddings", names.class_token = "embeddings.cls_token";
  names.norm_behind = "layernorm", names.blocks = "encoder.layer";
  names.norm1 = "layernorm_before", names.norm2 = "layernorm_after";
  names.attention = "attention", names.output = "attention.projection_layer";
  names.scale1 = "lambda_1", names.scale2 = "lambda_2";
  return names;
}

/// Throws InputError for settings that no published tower has.
void check_internvl(const JsonReader& config, const JsonReader& tower) {
  const auto plain_only = [](const JsonReader& of, std::string_view key, bool accepted) {
    if (of.boolean_or(key, accepted) != accepted)
      of.at(key).fail(accepted ? "false" : "true", accepted ? "accepted: true" : "accepted: false");
  };
  plain_only(tower, "use_mask_token", false);
  plain_only(tower, "use_absolute_position_embeddings", true);
  const auto layer = config.find("vision_feature_layer");
  if (layer && layer->integer(-architectures::kMostLayers, architectures::kMostLayers) != -1)
    layer->fail("features of an inner layer", "accepted: -1");
  if (const std::string strategy = config.text_or("vision_feature_select_strategy", "default");
      strategy != "default")
    config.at("vision_feature_select_strategy").fail(in_quotes(strategy), "accepted: default");
}

/// Patches along a side that become one token.
std::int64_t shuffle_of(const JsonReader& config) {
  const auto ratio = config.find("downsample_ratio");
  const double share = ratio ? ratio->number(0.01, 1) : 0.5;
  return static_cast<std::int64_t>(1 / share);
}

Vision internvl(const JsonReader& config, const JsonReader& tower, std::int64_t text_width) {
  check_internvl(config, tower);
  Vision vision{.projector = Projector::shuffled_two_layers, .text_width = text_width};
  const std::int64_t side = side_of(tower, "image_size", 448), patch = patch_side(tower, 14);
  TowerShape& shape = vision.tower;
  const std::string norm_type = tower.text_or("norm_type", "layer_norm");
  if (norm_type != "layer_norm" && norm_type != "rms_norm")
    tower.at("norm_type").fail(in_quotes(norm_type), "accepted: layer_norm, rms_norm");
  shape = {.layers = layer_count(tower, "num_hidden_layers", 24),
           .hidden_size = whole(tower, "hidden_size", 1024),
           .intermediate_size = whole(tower, "intermediate_size", 4096),
           .heads = whole(tower, "num_attention_heads", 16),
           .channels = factor(tower, "num_channels", 3),
           .patch_size = patch,
           .merge = shuffle_of(config),
           .attention = TowerAttention::padded,
           .activation = activation(tower, "gelu"),
           .rms_norm = norm_type == "rms_norm",
           .patch_bias = true,
           .biased = tower.boolean_or("attention_bias", false),
           .query_key_norm = tower.boolean_or("use_qk_norm", false),
           .layer_scale = true,
           .class_token = true,
           .pixels = TowerPixels::before_tower,
           .place = TowerPositions::whole,
           .norm_behind = !tower.boolean_or("use_mean_pooling", true)};
  const std::int64_t along = patches_along(tower, side, patch, shape.merge);
  shape.positions = along * along + 1;
  vision.names = internvl_names();
  vision.rule = {.kind = TokenRule::tiles,
                 .unit = side,
                 .least = 1,
                 .most = 12,
                 .tokens = along * along / (shape.merge * shape.merge),
                 .source = "1 to 12 tiles and a thumbnail"};
  return vision;
}

// ---- Idefics 3 --------------------------------------------------------------------------------------------

Vision idefics3(const JsonReader& config, const JsonReader& tower, std::int64_t text_width) {
  Vision vision{.projector = Projector::shuffled, .text_width = text_width};
  const std::int64_t side = side_of(tower, "image_size", 224), patch = patch_side(tower, 32);
  TowerShape& shape = vision.tower;
  shape = {.layers = layer_count(tower, "num_hidden_layers", 12),
           .hidden_size = whole(tower, "hidden_size", 1152),
           .intermediate_size = whole(tower, "intermediate_size", 3072),
           .heads = whole(tower, "num_attention_heads", 16),
           .channels = factor(tower, "num_channels", 3),
           .patch_size = patch,
           .merge = factor(config, "scale_factor", 2),
           .attention = TowerAttention::padded,
           .activation = activation(tower, "gelu_pytorch_tanh"),
           .patch_bias = true,
           .pixels = TowerPixels::selected,
           .place = TowerPositions::rows_of_image,
           .input_gradient = InputGradient::of_embeddings,
           .norm_behind = true};
  const std::int64_t along = patches_along(tower, side, patch, shape.merge);
  shape.positions = along * along;
  vision.names = clip_names();
  vision.names.tower = "model.vision_model", vision.names.projector = "model.connector";
  vision.rule = {.kind = TokenRule::squares,
                 .unit = side,
                 .most = 4 * side,
                 .tokens = along * along / (shape.merge * shape.merge),
                 .source = "squares of the tower's side, four along the longest, and the whole image"};
  return vision;
}

// ---- Mistral 3 --------------------------------------------------------------------------------------------

TowerNames pixtral_names() {
  TowerNames names = clip_names();
  names.patches = "patch_conv", names.positions = {};
  names.norm_before = "ln_pre", names.norm_behind = {};
  names.blocks = "transformer.layers";
  names.norm1 = "attention_norm", names.norm2 = "ffn_norm";
  names.attention = "attention", names.output = "attention.o_proj";
  names.gate = "feed_forward.gate_proj", names.up = "feed_forward.up_proj";
  names.down = "feed_forward.down_proj";
  return names;
}

Vision mistral3(const JsonReader& config, const JsonReader& tower, std::int64_t text_width) {
  Vision vision{.projector = Projector::unfolded, .text_width = text_width};
  if (const std::string type = tower.text_or("model_type", "pixtral"); type != "pixtral")
    tower.at("model_type").fail(in_quotes(type), "accepted: pixtral");
  if (const auto layer = config.find("vision_feature_layer");
      layer && layer->integer(-architectures::kMostLayers, architectures::kMostLayers) != -1)
    layer->fail("features of an inner layer", "accepted: -1");
  TowerShape& shape = vision.tower;
  shape = {.layers = layer_count(tower, "num_hidden_layers", 24),
           .hidden_size = whole(tower, "hidden_size", 1024),
           .intermediate_size = whole(tower, "intermediate_size", 4096),
           .heads = whole(tower, "num_attention_heads", 16),
           .channels = factor(tower, "num_channels", 3),
           .patch_size = patch_side(tower, 16),
           .merge = factor(config, "spatial_merge_size", 2),
           .attention = TowerAttention::joined,
           .activation = activation(tower, "gelu"),
           .rms_norm = true,
           .gated = true,
           .biased = false,
           .output_biased = false,
           .norm_before = true};
  vision.projector_biased = config.boolean_or("multimodal_projector_bias", false);
  vision.names = pixtral_names();
  vision.rule = {.kind = TokenRule::longest,
                 .unit = shape.patch_size * shape.merge,
                 .most = side_of(tower, "image_size", 1024),
                 .row_ends = true,
                 .source = "the longest side within image_size, a token more for each row"};
  return vision;
}

constexpr std::array kFamilies{
    ImageTextFamily{"qwen2_5_vl", "qwen2", "model.language_model.", qwen2_5_vl, "out_hidden_size", true},
    ImageTextFamily{"qwen2_vl", "qwen2", "model.language_model.", qwen2_vl, "hidden_size", true},
    ImageTextFamily{"gemma3", "gemma3_text", "model.language_model.", gemma3},
    ImageTextFamily{"llava", "", "model.language_model.", llava, {}, true},
    ImageTextFamily{"qwen3_vl", "qwen3", "model.language_model.", qwen3_vl, "out_hidden_size"},
    ImageTextFamily{"qwen3_vl_moe", "qwen3_moe", "model.language_model.", qwen3_vl, "out_hidden_size"},
    ImageTextFamily{"qwen3_5", "qwen3_5_text", "model.language_model.", qwen3_5, "out_hidden_size"},
    ImageTextFamily{"qwen3_5_moe", "qwen3_5_moe_text", "model.language_model.", qwen3_5, "out_hidden_size"},
    ImageTextFamily{"internvl", "", "model.language_model.", internvl},
    ImageTextFamily{"idefics3", "", "model.text_model.", idefics3},
    ImageTextFamily{"smolvlm", "", "model.text_model.", idefics3},
    ImageTextFamily{"mistral3", "", "model.language_model.", mistral3},
};

/// transformers makes such a model, but its features have no place among the embeddings.
void check_output(const JsonReader& tower, const ImageTextFamily& family, std::int64_t text_width) {
  if (family.output.empty() || whole(tower, family.output, text_width) == text_width) return;
  tower.at(family.output)
      .fail(fmt::format("features of width {}", whole(tower, family.output, text_width)),
            fmt::format("accepted: {}, the language model's", text_width));
}

}  // namespace

namespace architectures {

const ImageTextFamily* image_text_family(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &ImageTextFamily::model_type);
  return found == kFamilies.end() ? nullptr : &*found;
}

void check_tower(const JsonReader& tower, const ImageTextFamily& family, const Vision& vision) {
  check_heads(tower, vision.tower);
  check_output(tower, family, vision.text_width);
}

}  // namespace architectures

std::vector<std::string> image_text_architectures() {
  std::vector<std::string> names;
  for (const ImageTextFamily& each : kFamilies) names.emplace_back(each.model_type);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace zplan
