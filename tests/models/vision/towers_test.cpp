// Multimodal models read with their towers: parameters as instantiated by transformers, towers idle on text.
#include "models/vision/towers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "models/config.h"
#include "tests/models/support.h"

namespace zplan::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::vector<Json> counted_models() {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/parameter_counts/image_text.jsonl";
  std::istringstream lines(read_file(path));
  std::vector<Json> models;
  for (std::string line; std::getline(lines, line);) models.push_back(parse_json(line, path));
  return models;
}

TEST(Towers, ParametersAreExact) {
  const std::vector<Json> models = counted_models();
  EXPECT_GT(models.size(), 25U);
  for (const Json& each : models) {
    const std::string name = each.at("name");
    const Model model = read_config(JsonReader(each.at("config"), name));
    EXPECT_EQ(parameters(model).value, each.at("parameters").get<std::int64_t>()) << name;
    EXPECT_TRUE(has_tower(model)) << name;
  }
}

constexpr const char* kLlavaNext = R"({"model_type": "llava_next", "text_config": {"model_type": "qwen2",
  "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 160}, "vision_config": {"model_type": "clip_vision_model",
  "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "image_size": 28, "patch_size": 14}})";

TEST(Towers, TheLanguageModelRunsByItsDescriptor) {
  const Model model = model_of(kLlavaNext);
  EXPECT_EQ(model.shape.architecture, "llava_next");
  EXPECT_FALSE(model.analogue || model.recorded);
  EXPECT_EQ(model.inventory.before.front().name, "model.image_newline");
  EXPECT_EQ(model.inventory.layers.size(), 2U);
  EXPECT_EQ(model.inventory.kinds.front().tensors.front().name,
            "model.language_model.layers.{}.self_attn.q_proj.weight");
  EXPECT_EQ(tensor_named(model.inventory, "model.vision_tower.embeddings.position_embedding.weight").shape,
            (std::vector<std::int64_t>{2 * 2 + 1, 32}));
  for (const Tensor& each : model.inventory.before)
    EXPECT_EQ(each.idle, !each.name.starts_with("model.language_model.")) << each.name;
}

/// A list's length, gates, and layers that attend to images.
TEST(Towers, CrossAttentionOfMllama) {
  const Model model = model_of(R"({"model_type": "mllama", "text_config": {"model_type": "mllama_text_model",
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 160, "cross_attention_layers": [1]},
    "vision_config": {"model_type": "mllama_vision_model", "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 1, "num_global_layers": 1, "image_size": 28, "max_num_tiles": 2,
    "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]], "vision_output_dim": 96}})");
  ASSERT_TRUE(model.analogue);  // which has no such layers
  EXPECT_EQ(model.analogue->inventory.kinds.size(), 1U);
  EXPECT_EQ(model.inventory.layers, (std::vector<std::size_t>{0, 1, 0}));
  EXPECT_EQ(model.inventory.kinds[1].tensors.front().name,
            "model.language_model.layers.{}.cross_attn_attn_gate");
  EXPECT_EQ(tensor_named(model.inventory, "model.language_model.embed_tokens.weight").shape.front(), 168);
  EXPECT_EQ(
      tensor_named(model.inventory, "model.vision_model.gated_positional_embedding.tile_embedding.weight")
          .shape,
      (std::vector<std::int64_t>{3 + 1, 2 * 5 * 32}));
}

TEST(Towers, TheThinkerOfAnOmniModel) {
  Json config = parse_json(R"({"model_type": "qwen2_5_omni", "thinker_config": {
    "model_type": "qwen2_5_omni_thinker", "text_config": {"model_type": "qwen2_5_omni_text", "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 160}, "vision_config": {"depth": 1}, "audio_config": {"encoder_layers": 1}}})",
                           "test");
  const Model model = read_config(JsonReader(config, "test"));
  EXPECT_EQ(model.shape.architecture, "qwen2_5_omni_thinker");
  EXPECT_EQ(parameters(model), parameters(read_config(JsonReader(config["thinker_config"], "test"))));
}

TEST(Towers, ATextWithFewTapesHasAFurtherAnalogue) {
  const Model model = model_of(R"({"model_type": "lfm2_vl", "projector_hidden_size": 2048,
    "downsample_factor": 2, "text_config": {"model_type": "lfm2", "hidden_size": 2048, "block_dim": 2048,
    "block_ff_dim": 12288, "intermediate_size": 12288, "block_auto_adjust_ff_dim": true,
    "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256, "conv_L_cache": 3, "conv_bias": false,
    "layer_types": ["conv", "conv", "full_attention", "conv", "conv", "full_attention", "conv", "conv",
    "full_attention", "conv", "full_attention", "conv", "full_attention", "conv", "full_attention", "conv"],
    "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "vocab_size": 65536},
    "vision_config": {"model_type": "siglip2_vision_model", "hidden_size": 1152, "intermediate_size": 4304,
    "num_attention_heads": 16, "num_channels": 3, "num_hidden_layers": 27, "num_patches": 256,
    "patch_size": 16, "vision_use_head": false}})");
  ASSERT_TRUE(model.analogue && model.analogue->recorded);
  EXPECT_TRUE(model.analogue->analogue);
}

TEST(Towers, SizesThatMakeNoTowerAreRefused) {
  const auto message = [](const char* key, const Json& value) -> std::string {
    Json config = parse_json(kLlavaNext, "test");
    config["vision_config"][key] = value;
    try {
      static_cast<void>(read_config(JsonReader(config, "test")));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("patch_size", 0), HasSubstr("division by 0"));
  EXPECT_THAT(message("hidden_size", "wide"), HasSubstr("vision_config.hidden_size"));
  EXPECT_THAT(message("hidden_size", -1), HasSubstr("accepted: up to 2^40"));
  EXPECT_THAT(message("num_hidden_layers", 100'000'000), HasSubstr("2^20 tensors"));
  EXPECT_THAT(message("hidden_size", 10'000'000'000), HasSubstr("accepted: at most 2^60"));
}

TEST(Towers, AreNamedByArchitecture) {
  EXPECT_THAT(architectures_with_idle_towers(), Contains("internvl_chat"));
  EXPECT_THAT(architectures_with_idle_towers(), Contains("voxtral"));
}

}  // namespace
}  // namespace zplan::test
