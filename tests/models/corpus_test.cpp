// Broken input must end in an InputError of one line that names the place, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "models/config.h"
#include "models/lora.h"
#include "tests/models/support.h"
#include "tests/mutated.h"

namespace zplan::test {
namespace {

std::vector<std::string> broken_files() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ZPLAN_TEST_DATA) + "/models/corpus"))
    files.push_back(entry.path().filename().string());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_printable_line(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

class BrokenConfig : public testing::TestWithParam<std::string> {};

TEST_P(BrokenConfig, EndsInOneLineThatNamesThePlace) {
  const std::string text = read_file(std::string(ZPLAN_TEST_DATA) + "/models/corpus/" + GetParam());
  const std::string message = message_of(text);
  EXPECT_THAT(message, testing::StartsWith("config.json"));
  EXPECT_THAT(message, testing::ContainsRegex("^config.json(#/[^:]*)?: .+; .+"));
  EXPECT_TRUE(is_printable_line(message)) << message;
  EXPECT_LT(message.size(), 2000U);
}

INSTANTIATE_TEST_SUITE_P(Corpus, BrokenConfig, testing::ValuesIn(broken_files()), [](const auto& each) {
  return test_name(each.param.substr(0, each.param.rfind('.')));
});

/// One good config per architecture of the reference files, and one for each of the others.
std::vector<std::string> good_configs() {
  std::vector<std::string> configs{
      R"({"model_type": "qwen", "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2,
          "num_attention_heads": 4, "vocab_size": 160, "kv_channels": 16, "no_bias": true})",
      R"({"model_type": "chatglm", "hidden_size": 64, "ffn_hidden_size": 96, "num_layers": 2, "kv_channels": 16,
          "num_attention_heads": 4, "padded_vocab_size": 160, "multi_query_attention": true,
          "multi_query_group_num": 2, "add_qkv_bias": true})",
      R"({"model_type": "baichuan", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 4, "vocab_size": 160})",
      R"({"model_type": "internlm2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160, "bias": false})",
      R"({"model_type": "gemma3", "text_config": {"hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 7, "num_attention_heads": 4, "layer_types": ["sliding_attention"]}})"};
  for (const std::string& family : supported_architectures()) {
    const std::string file = "reference/named_parameters/" + family + ".json";
    if (!std::filesystem::exists(std::string(ZPLAN_TEST_DATA) + "/" + file)) continue;
    const Json reference = test_data(file);
    for (const Json& model : reference["models"]) configs.push_back(model["config"].dump());
  }
  return configs;
}

const std::vector<std::string> kWords{"-", "0", "9",  "null", "true", "\"", "[",  "]",  "{",   "}",
                                      ",", ":", "e9", ".",    "1e",   "{}", "[]", "\\", "\xff"};

/// Reads and, where a model comes out, counts it in every way.
void read_and_count(const std::string& text) {
  const Json json = parse_json(text, "config.json");
  const Model model = read_config(JsonReader(json, "config.json"));
  ASSERT_GT(parameters(model).value, 0);
  ASSERT_LE(parameters(model).value, std::int64_t{1} << 60);
  ASSERT_LE(active_parameters(model), parameters(model));
  ASSERT_LE(largest_layer(model), parameters(model));
  ASSERT_EQ(model.inventory.layers.size(), static_cast<std::size_t>(model.shape.layers));
  ASSERT_GE(elements(lora_adapters(model, 8, {})).value, 0);
  for (const Tensor& tensor : model.inventory.kinds.front().tensors) {
    ASSERT_EQ(tensor.elements().value % tensor.split_units, 0) << tensor.name;
    ASSERT_GE(elements_on_rank(tensor, 8, 7).value, 0);
  }
}

// A fixed seed: the same bytes every time.
TEST(MutatedConfig, EndsInAModelOrAnInputError) {
  std::mt19937 random(20'260'101);
  int models = 0;
  int errors = 0;
  const std::vector<std::string> configs = good_configs();
  ASSERT_GT(configs.size(), 80U);
  for (int round = 0; round < 6'000; ++round) {
    const std::string text =
        mutated(configs[static_cast<std::size_t>(round) % configs.size()], kWords, random);
    try {
      read_and_count(text);
      ++models;
    } catch (const InputError& error) {
      ++errors;
      ASSERT_TRUE(is_printable_line(error.what())) << text;
    }
  }
  // Both ends are reached often, or the mutations are too mild or too wild to test anything.
  EXPECT_GT(models, 500);
  EXPECT_GT(errors, 2'000);
}

}  // namespace
}  // namespace zplan::test
