// Tensors as expressions over a config's fields: published models counted to the unit, and what bad fields
// are answered with.
#include "models/inventories/by_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/config.h"
#include "tests/models/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

/// Configs of published models, one a line, with what transformers counts for each.
std::vector<Json> published_configs() {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/parameter_counts/configs.jsonl";
  std::vector<Json> all;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) all.push_back(parse_json(line, path));
  return all;
}

class PublishedConfigs : public testing::TestWithParam<Json> {};

TEST_P(PublishedConfigs, AreCountedToTheUnit) {
  EXPECT_EQ(parameters(model_of(GetParam().at("config"))).value,
            GetParam().at("parameters").get<std::int64_t>())
      << GetParam().at("id");
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedConfigs, testing::ValuesIn(published_configs()),
                         [](const auto& each) {
                           return test_name(each.param.at("id").template get<std::string>());
                         });

constexpr const char* kNemotron = R"({
  "model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-", "hidden_size": 64, "intermediate_size": 96,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "mamba_num_heads": 4, "mamba_head_dim": 8,
  "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4, "vocab_size": 100, "time_step_limit": [0.0, Infinity]
})";

/// Layers by the letters of the pattern: M, Mamba 2; -, a feed-forward; *, attention.
TEST(ModelByRules, ReadsALayersKindFromThePattern) {
  const Model model = model_of(kNemotron);
  EXPECT_EQ(model.inventory.layers, (std::vector<std::size_t>{0, 1, 0, 2, 1}));
  EXPECT_EQ(tensor_named(model.inventory, "model.layers.{}.mixer.in_proj.weight").shape,
            (std::vector<std::int64_t>{2 * 32 + 2 * 2 * 16 + 4, 64}));
  EXPECT_EQ(tensor_named(model.inventory, "model.layers.{}.mixer.q_proj.weight").shape,
            (std::vector<std::int64_t>{64, 64}));
  EXPECT_EQ(tensor_named(model.inventory, "model.layers.{}.mixer.up_proj.weight").linear,
            (Linear{.in_features = 64, .out_features = 96}));
}

/// Steps that were recorded at other sizes, of layers in another order; chunks must be as recorded.
TEST(ModelByRules, HasRecordedStepsAtItsOwnSizes) {
  const Model model = model_of(kNemotron);
  ASSERT_NE(model.recorded, nullptr);
  ASSERT_NE(model.analogue, nullptr) << "for ways to train that were not recorded";
  const RecordedTape& tape = model.recorded->tapes.at(0);
  EXPECT_EQ(tape.layers.size(), 5U);
  const auto has_size = [&](std::int64_t bytes_per_token) {
    return std::any_of(tape.sizes.begin(), tape.sizes.end(), [&](const RecordedSize& each) {
      return each.at(1, 1000, 0) == Bytes(1000 * bytes_per_token);
    });
  };
  EXPECT_TRUE(has_size(2 * 64)) << "hidden states in bf16";
  EXPECT_TRUE(has_size(2 * 96)) << "of the feed-forward";
  EXPECT_TRUE(has_size(2 * (2 * 32 + 2 * 2 * 16 + 4))) << "what Mamba's layer projects onto";
  Json config = parse_json(kNemotron, "test");
  config["chunk_size"] = 64;
  EXPECT_EQ(model_of(config).recorded, nullptr);
  config.erase("chunk_size");
  config["hybrid_override_pattern"] = "*M";
  EXPECT_EQ(model_of(config).recorded, nullptr) << "no recording begins with attention";
}

TEST(ModelByRules, FieldsThatAreLeftOutAreTransformersDefaults) {
  // mamba_dt_rank "auto" is an sixteenth of the width, rounded up.
  const Model model = model_of(R"({"model_type": "jamba", "hidden_size": 40, "mamba_dt_rank": "auto"})");
  EXPECT_EQ(tensor_named(model.inventory, "model.layers.{}.mamba.dt_proj.weight").shape,
            (std::vector<std::int64_t>{80, 3}));
  EXPECT_EQ(model.shape.layers, 32);
}

TEST(ModelByRules, FieldsThatMakeNoSizesAreNamed) {
  EXPECT_THAT(message_of(R"({"model_type": "jamba", "hidden_size": "wide"})"), HasSubstr("hidden_size"));
  EXPECT_THAT(message_of(R"({"model_type": "jamba", "hidden_size": -4})"), HasSubstr("hidden_size -4"));
  EXPECT_THAT(message_of(R"({"model_type": "jamba", "hidden_size": 1000000000000})"),
              HasSubstr("accepted: "));
  EXPECT_THAT(message_of(R"({"model_type": "jamba", "hidden_size": 64, "num_hidden_layers": 9000000})"),
              HasSubstr("num_hidden_layers"));
  EXPECT_THAT(message_of(R"({"model_type": "jamba", "hidden_size": 64, "num_hidden_layers": 0})"),
              HasSubstr("no layers"));
}

TEST(ModelByRules, KnowsNoOtherArchitecture) {
  const Json config{{"model_type", "fictional"}};
  EXPECT_FALSE(model_by_rules(JsonReader(config, "config.json")));
}

}  // namespace
}  // namespace zplan::test
