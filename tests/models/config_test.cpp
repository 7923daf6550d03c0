// Reading config.json: defaults of fields that are left out, and messages for those that are wrong.
#include "models/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/names.h"
#include "tests/models/support.h"

namespace zplan::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Llama 3.2 1B with one key changed or added.
std::string llama_with(const std::string& key, const std::string& value) {
  Json config = parse_json(R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256})",
                           "test");
  config[key] = parse_json(value, "test");
  return config.dump();
}

std::string llama_without(const std::string& key) {
  Json config = parse_json(llama_with("tie_word_embeddings", "true"), "test");
  config.erase(key);
  return config.dump();
}

TEST(ReadConfig, SupportedArchitecturesAreSortedAndUnique) {
  const std::vector<std::string> names = supported_architectures();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_THAT(names, testing::IsSupersetOf({"llama",       "mistral",     "mixtral",   "qwen",   "qwen2",
                                            "qwen2_moe",   "qwen3",       "qwen3_moe", "gemma",  "gemma2",
                                            "gemma3",      "gemma3_text", "phi",       "phi3",   "gpt2",
                                            "gpt_neox",    "opt",         "falcon",    "bloom",  "internlm2",
                                            "deepseek_v2", "deepseek_v3", "glm",       "glm4",   "gpt_oss",
                                            "olmo2",       "mpt",         "baichuan",  "chatglm"}));
}

TEST(ReadConfig, ShapeOfLlama) {
  const Model model = model_of(parse_json(llama_with("tie_word_embeddings", "true"), "test"));
  EXPECT_EQ(model.shape.architecture, "llama");
  EXPECT_EQ(model.shape.layers, 16);
  EXPECT_EQ(model.shape.hidden_size, 2048);
  EXPECT_EQ(model.shape.intermediate_size, 8192);
  EXPECT_EQ(model.shape.head_size, 64);
  EXPECT_EQ(model.shape.key_value_heads, 8);
  EXPECT_TRUE(model.shape.tied_embeddings);
  EXPECT_EQ(model.shape.max_positions, 0);
  EXPECT_EQ(model.source, ModelSource::config);
  EXPECT_EQ(parameters(model).value, 1'235'814'400);  // meta-llama/Llama-3.2-1B, safetensors metadata
}

TEST(ReadConfig, ClassNameStandsInForModelType) {
  Json config = parse_json(llama_without("model_type"), "test");
  config["architectures"] = {"LlamaForCausalLM"};
  EXPECT_EQ(model_of(config).shape.architecture, "llama");
}

TEST(ReadConfig, QuantisationIsNotItsBusiness) {
  EXPECT_EQ(
      parameters(model_of(parse_json(llama_with("quantization_config", R"({"bits": 4})"), "test"))).value,
      parameters(model_of(parse_json(llama_with("tie_word_embeddings", "false"), "test"))).value);
}

// google/gemma-3-4b-it as published leaves heads and vocabulary out of its text_config.
TEST(ReadConfig, Gemma3NestsItsText) {
  const Model model =
      model_of(R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
    "num_hidden_layers": 34, "sliding_window": 1024}, "vision_config": {"hidden_size": 1152}})");
  EXPECT_EQ(parameters(model).value, 3'880'263'168);  // Gemma-3-4B-text in parameter_counts.json
  EXPECT_EQ(model.shape.architecture, "gemma3");
  EXPECT_EQ(model.shape.attention_heads, 8);
  EXPECT_EQ(model.shape.sliding_window, 1024);
  EXPECT_EQ(model.shape.sliding_layers, 29);  // every sixth of 34 sees everything
}

TEST(ReadConfig, SlidingLayers) {
  const auto sliding = [](const char* config) {
    const ModelShape shape = model_of(config).shape;
    return std::pair(shape.sliding_window, shape.sliding_layers);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  // Qwen2.5-7B says use_sliding_window false; transformers then ignores the window.
  EXPECT_EQ(
      sliding(R"({"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160, "sliding_window": 131072,
    "use_sliding_window": false, "max_window_layers": 2})"),
      Pair(0, 0));
  EXPECT_EQ(
      sliding(R"({"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160, "sliding_window": 512,
    "use_sliding_window": true, "max_window_layers": 1})"),
      Pair(512, 3));
  EXPECT_EQ(
      sliding(R"({"model_type": "mistral", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160, "sliding_window": null})"),
      Pair(0, 0));
  EXPECT_EQ(
      sliding(R"({"model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 8, "vocab_size": 160, "layer_types": ["full_attention", "sliding_attention",
    "full_attention"]})"),
      Pair(128, 1));
}

// Exact counts of published checkpoints, from their safetensors metadata or model.safetensors.index.json.
TEST(ReadConfig, RemoteCodeModels) {
  EXPECT_EQ(
      parameters(model_of(R"({"model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 92544,
    "bias": false})"))
          .value,
      7'737'708'544);
  // THUDM/glm-4-9b holds what GLM-4-9B of transformers' own code holds (parameter_counts.json).
  EXPECT_EQ(parameters(model_of(R"({"model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696,
    "num_layers": 40, "num_attention_heads": 32, "kv_channels": 128, "multi_query_attention": true,
    "multi_query_group_num": 2, "padded_vocab_size": 151552, "add_qkv_bias": true, "add_bias_linear": false})"))
                .value,
            9'399'951'360);
  // THUDM/chatglm2-6b, 6.24 B.
  EXPECT_EQ(parameters(model_of(R"({"model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696,
    "num_layers": 28, "num_attention_heads": 32, "kv_channels": 128, "multi_query_attention": true,
    "multi_query_group_num": 2, "padded_vocab_size": 65024, "add_qkv_bias": true, "seq_length": 32768})"))
                .value,
            6'243'584'000);
}

TEST(ReadConfig, UnknownArchitectureWithoutAShapeNamesTheNearestAndTheSupported) {
  const std::string message = message_of(R"({"model_type": "lama", "hidden_size": 64})");
  EXPECT_THAT(message, StartsWith("config.json#/model_type: \"lama\" is not supported"));
  EXPECT_THAT(message, AllOf(HasSubstr("did you mean llama?"), HasSubstr("starcoder2")));
}

/// However much like Llama it looks, it is not planned as if it were without saying so.
TEST(ReadConfig, UnknownArchitectureIsNeverLlamaInSilence) {
  Json config = parse_json(llama_with("model_type", R"("fictional")"), "test");
  config["architectures"] = {"LlamaForCausalLM"};
  const Model model = model_of(config);
  EXPECT_EQ(model.shape.architecture, "fictional");
  ASSERT_NE(model.analogue, nullptr);
  EXPECT_EQ(model.analogue->shape.architecture, "llama");
  EXPECT_EQ(model.inventory, model.analogue->inventory);
  config["architectures"] = {"FictionalForCausalLM"};
  config.erase("model_type");
  EXPECT_THAT(message_of(config.dump()), StartsWith("config.json#/model_type: is missing; "));
}

TEST(ReadConfig, UnknownMixtureIsPlannedLikeOne) {
  const Model model = model_of(parse_json(R"({"model_type": "fictional_vl", "text_config": {
    "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000, "n_routed_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 64}})",
                                          "test"));
  ASSERT_NE(model.analogue, nullptr);
  ASSERT_TRUE(model.shape.experts);
  EXPECT_EQ(model.shape.experts->experts, 8);
  EXPECT_EQ(elements(model.inventory, TensorRole::expert), Elements(2 * 8 * 3 * 64 * 256));
}

TEST(ReadConfig, MissingArchitecture) {
  EXPECT_THAT(message_of(llama_without("model_type")), StartsWith("config.json#/model_type: is missing; "));
  EXPECT_THAT(message_of("{}"), StartsWith("config.json#/model_type: is missing; "));
}

TEST(ReadConfig, MissingSizes) {
  for (const std::string key :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"})
    EXPECT_THAT(message_of(llama_without(key)), AllOf(StartsWith("config.json#/" + key + ": is missing; "),
                                                      HasSubstr("a whole number from 1 to")));
}

TEST(ReadConfig, WrongValuesAreNamedByPlace) {
  for (const std::string key :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "vocab_size", "head_dim", "max_position_embeddings"})
    for (const std::string value : {"0", "-1", "1e300", "4.5", "9223372036854775807", "18446744073709551615",
                                    "\"4096\"", "[4096]", "{}", "true"})
      EXPECT_THAT(message_of(llama_with(key, value)),
                  AllOf(StartsWith("config.json#/" + key + ": "), HasSubstr("a whole number from 1 to")))
          << key << " = " << value;
}

TEST(ReadConfig, BoundsAreInclusive) {
  EXPECT_EQ(message_of(llama_with("num_hidden_layers", "1024")), "");
  EXPECT_THAT(message_of(llama_with("num_hidden_layers", "1025")),
              StartsWith("config.json#/num_hidden_layers: "));
  EXPECT_EQ(message_of(llama_with("hidden_size", "1048576")), "");
  EXPECT_THAT(message_of(llama_with("hidden_size", "1048577")), StartsWith("config.json#/hidden_size: "));
  EXPECT_EQ(message_of(llama_with("vocab_size", "67108864")), "");
  EXPECT_THAT(message_of(llama_with("vocab_size", "67108865")), StartsWith("config.json#/vocab_size: "));
}

TEST(ReadConfig, SizesThatDoNotGoTogether) {
  EXPECT_THAT(
      message_of(llama_with("num_attention_heads", "24")),
      AllOf(StartsWith("config.json#/num_attention_heads: 24 heads do not divide the hidden size 2048"),
            HasSubstr("head_dim")));
  EXPECT_THAT(message_of(llama_with("num_key_value_heads", "5")),
              StartsWith("config.json#/num_key_value_heads: 5 key-value heads for 32 attention heads; "));
  EXPECT_THAT(message_of(R"({"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 160, "num_local_experts": 4,
    "num_experts_per_tok": 5})"),
              StartsWith("config.json#/num_experts_per_tok: 5 experts per token of 4; "));
  EXPECT_THAT(message_of(R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560}})"),
              StartsWith("config.json#/text_config/num_hidden_layers: is missing; "));
}

TEST(ReadConfig, MoreThan2To60Parameters) {
  EXPECT_THAT(message_of(R"({"model_type": "mixtral", "hidden_size": 1048576, "intermediate_size": 16777216,
    "num_hidden_layers": 1024, "num_attention_heads": 1024, "vocab_size": 67108864, "num_local_experts": 65536})"),
              AllOf(StartsWith("config.json: sizes that make"), HasSubstr("at most 2^60 parameters")));
  // 1024 layers of 2^43.6 are an eightieth of 2^60: large, and counted to the last parameter.
  const Model model = model_of(R"({"model_type": "gpt2", "n_embd": 1048576, "n_layer": 1024, "n_head": 1024,
    "vocab_size": 1, "n_positions": 1})");
  const std::int64_t h = 1'048'576;
  EXPECT_EQ(parameters(model).value, 1024 * (12 * h * h + 13 * h) + 2 * h + 2 * h);
}

}  // namespace
}  // namespace zplan::test
