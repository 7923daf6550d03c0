// Image-text models with images: tensors as PyTorch counted them, tokens as the processors do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/config.h"
#include "models/lora.h"
#include "tests/models/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

ImageRequest of_size(std::int64_t width, std::int64_t height) {
  return {.per_sample = 1, .width = width, .height = height};
}

/// Small, with published patches and windows.
Model qwen2_5_vl() {
  return model_of(R"({"model_type": "qwen2_5_vl", "text_config": {"hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160},
    "vision_config": {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}})");
}

ImageBatch batch_of(const Model& model, const ImageRequest& request) {
  const Vision& vision = *model.with_images->vision;
  return image_batch(vision.rule, vision.tower, request);
}

std::string refused(const Model& model, const ImageRequest& request) {
  try {
    static_cast<void>(batch_of(model, request));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// The counts of PyTorch's own models, and of the adapters that peft gives them: towers are adapted too.
TEST(Vision, ParametersAreThoseOfPyTorch) {
  std::size_t seen = 0;
  for (const Json& row : test_data("reference/images/steps.json")) {
    const std::optional<Model> model = image_text_model(JsonReader(row.at("config"), "config"));
    ASSERT_TRUE(model) << row.at("id");
    const bool full = row.at("options").at("method") == "full";
    const Elements counted =
        full ? elements(model->inventory) : elements(lora_adapters(*model, 16, LoraTargets{}));
    EXPECT_EQ(counted.value, row.at(full ? "parameters" : "trainable").get<std::int64_t>()) << row.at("id");
    ++seen;
  }
  EXPECT_EQ(seen, 169U);
}

TEST(Vision, ExcludedPartsGetNoAdapters) {
  const Model model = *qwen2_5_vl().with_images;
  EXPECT_FALSE(lora_adapters(model, 8, LoraTargets{}).before.empty());
  const LoraTargets outside{.excluded = {"model.visual"}};
  EXPECT_TRUE(lora_adapters(model, 8, outside).before.empty());
  EXPECT_FALSE(lora_adapters(model, 8, outside).kinds.front().tensors.empty());
}

// Rows and columns of patches that smart_resize of transformers 5.23 returns.
TEST(Vision, QwenResizesAsItsProcessorDoes) {
  struct Resized {
    std::int64_t width, height, rows, columns;
  };
  const Model model = qwen2_5_vl();
  for (const Resized& each : std::vector<Resized>{{1344, 1344, 96, 96},
                                                  {448, 448, 32, 32},
                                                  {1000, 700, 50, 72},
                                                  {28, 28, 4, 4},
                                                  {10, 200, 18, 2},
                                                  {5000, 4000, 228, 286},
                                                  {333, 777, 56, 24},
                                                  {4032, 3024, 216, 288},
                                                  {70, 98, 8, 4},
                                                  {1, 150, 50, 2}}) {
    const ImageBatch batch = batch_of(model, of_size(each.width, each.height));
    EXPECT_EQ(batch.rows, each.rows) << each.width << "x" << each.height;
    EXPECT_EQ(batch.columns, each.columns) << each.width << "x" << each.height;
    EXPECT_EQ(batch.tokens, each.rows * each.columns / 4);
  }
  EXPECT_THAT(refused(model, of_size(10, 2001)), HasSubstr("--image-size"));
  EXPECT_THAT(refused(model, {.per_sample = 1}), HasSubstr("--image-size"));
}

TEST(Vision, TokensMayBeGivenInstead) {
  const ImageBatch batch = batch_of(qwen2_5_vl(), {.per_sample = 3, .tokens = 2304});
  EXPECT_EQ(batch.tokens, 2304);
  EXPECT_EQ(batch.sequence(), 3 * 2304);
  EXPECT_EQ(batch.rows * batch.columns, 4 * 2304);
}

TEST(Vision, FixedImagesHaveTheirTokens) {
  const Model model = model_of(R"({"model_type": "gemma3", "mm_tokens_per_image": 256,
    "text_config": {"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2},
    "vision_config": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
    "image_size": 896, "patch_size": 14, "vision_use_head": false}})");
  ASSERT_TRUE(model.with_images);
  const ImageBatch batch = batch_of(model, {.per_sample = 2});
  EXPECT_EQ(batch.tokens, 256);
  EXPECT_EQ(batch.rows, 64);
  EXPECT_THAT(refused(model, {.per_sample = 1, .tokens = 255}), HasSubstr("256"));
}

// The rule is known whatever the language model: InternVL's tiles and Idefics 3's squares: what
// get_number_of_image_patches of transformers 5.23 says, times the tokens of each.
TEST(Vision, RulesAreKnownWithoutALanguageModel) {
  constexpr const char* kInternVl =
      R"({"model_type": "internvl", "vision_config": {"image_size": [448, 448]}})";
  constexpr const char* kIdefics3 =
      R"({"model_type": "idefics3", "scale_factor": 2, "vision_config": {"image_size": 364, "patch_size": 14}})";
  constexpr const char* kMistral3 =
      R"({"model_type": "mistral3", "spatial_merge_size": 2, "vision_config": {"image_size": 1540, "patch_size": 14}})";
  constexpr const char* kQwen3Vl = R"({"model_type": "qwen3_vl", "vision_config": {}})";
  struct Rule {
    const char* config;
    std::int64_t width, height, tokens;
  };
  for (const Rule& each : std::vector<Rule>{{kInternVl, 1344, 1344, 2560},
                                            {kInternVl, 1000, 700, 1792},
                                            {kInternVl, 448, 448, 256},
                                            {kInternVl, 300, 1200, 1280},
                                            {kInternVl, 2000, 500, 1280},
                                            {kIdefics3, 1344, 1344, 2873},
                                            {kIdefics3, 1000, 700, 2197},
                                            {kIdefics3, 300, 1200, 845},
                                            {kIdefics3, 2000, 500, 845},
                                            {kMistral3, 1344, 1344, 2352},
                                            {kMistral3, 1000, 700, 925},
                                            {kMistral3, 4000, 3000, 2352},
                                            {kQwen3Vl, 1344, 1344, 1764},
                                            {kQwen3Vl, 100, 100, 64}}) {
    const Json config = Json::parse(each.config);
    const std::optional<ImageRule> rule = image_rule(JsonReader(config, "config"));
    ASSERT_TRUE(rule) << each.config;
    EXPECT_EQ(image_batch(*rule, {.patch_size = 1}, of_size(each.width, each.height)).tokens, each.tokens)
        << each.config << " " << each.width << "x" << each.height;
  }
}

/// Small; `sizes` adds keys to the whole config.
Model qwen3_vl(const std::string& sizes = "") {
  const std::string config =
      R"({"model_type": "qwen3_vl", )" + sizes + R"("text_config": {"model_type": "qwen3_vl_text",
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 160, "tie_word_embeddings": true}, "vision_config": {"depth": 4,
    "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "deepstack_visual_indexes": [1, 2], "out_hidden_size": 64}})";
  return model_of(parse_json(config, "test"));
}

// A size that nobody recorded: its language model's program runs, its tower is loaded and idle.
TEST(Vision, TextAloneRunsTheLanguageModel) {
  const Model model = qwen3_vl();
  ASSERT_TRUE(model.with_images);
  EXPECT_FALSE(model.analogue || model.recorded);  // its language model's own program
  EXPECT_EQ(model.shape.architecture, "qwen3_vl");
  EXPECT_EQ(parameters(model), parameters(*model.with_images));
  for (const Tensor& each : model.inventory.before)
    EXPECT_EQ(each.idle, each.name.starts_with("model.visual.")) << each.name;
  EXPECT_FALSE(model.vision);
}

// The head is the whole model's.
TEST(Vision, TheWholeConfigSaysWhetherTheHeadIsTied) {
  EXPECT_TRUE(qwen3_vl().shape.tied_embeddings);
  EXPECT_FALSE(qwen3_vl(R"("tie_word_embeddings": false, )").shape.tied_embeddings);
  EXPECT_EQ(parameters(qwen3_vl(R"("tie_word_embeddings": false, )")).value - parameters(qwen3_vl()).value,
            160 * 64);
}

// peft and DeepSpeed know mixtures by the whole model's name, which is not the language model's.
TEST(Vision, ExpertsOfAnImageTextModelAreOutOfReachOfPeft) {
  const Model model = model_of(R"({"model_type": "qwen3_vl_moe", "text_config": {"hidden_size": 64,
    "intermediate_size": 96, "moe_intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "vocab_size": 160, "num_experts": 4, "num_experts_per_tok": 2}, "vision_config": {"depth": 2,
    "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "deepstack_visual_indexes": [], "out_hidden_size": 64}})");
  ASSERT_TRUE(model.with_images) << model.why_no_images;
  const Inventory adapters = lora_adapters(*model.with_images, 8, LoraTargets{});
  for (const Tensor& each : adapters.kinds.front().tensors) EXPECT_THAT(each.name, HasSubstr("self_attn"));
}

// llava-hf/llava-1.5-7b-hf says of its language model what is not Llama's default.
TEST(Vision, WhatFilesLeaveOutIsFilledIn) {
  const Model model = model_of(
      R"({"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096,
    "num_attention_heads": 16, "num_hidden_layers": 24, "image_size": 336, "patch_size": 14},
    "vision_feature_layer": -2})");
  EXPECT_EQ(parameters(model).value, 7'063'427'072);  // the published weights' own count
  EXPECT_TRUE(has_tower(model));
  EXPECT_EQ(batch_of(model, {.per_sample = 1}).tokens, 576);
}

// An invalid tower is an error only if images are requested: text alone is planned without it.
TEST(Vision, OddTowersAreToldLater) {
  const Model model = model_of(R"({"model_type": "qwen2_5_vl", "text_config": {"hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 160}, "vision_config": {"hidden_size": 30, "num_heads": 4}})");
  EXPECT_FALSE(model.with_images);
  EXPECT_THAT(model.why_no_images, HasSubstr("vision_config"));
  const Model wide =
      model_of(R"({"model_type": "qwen3_vl", "text_config": {"hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160},
    "vision_config": {"out_hidden_size": 96}})");
  EXPECT_FALSE(wide.with_images);
  EXPECT_THAT(wide.why_no_images, HasSubstr("vision_config/out_hidden_size: features of width 96"));
}

}  // namespace
}  // namespace zplan::test
