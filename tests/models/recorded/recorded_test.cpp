// Recorded models: what a zplan.model/1 document may hold, and how one that is broken is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/config.h"
#include "models/recorded/read.h"
#include "tests/mutated.h"

namespace zplan {
namespace {

using testing::HasSubstr;

/// Two equal layers of one weight. Each keeps its input (100·b·s bytes) for the backward, which frees it.
constexpr const char* kSmall = R"({
  "format": "zplan.model/1", "name": "small", "architecture": "fictional", "recorded_with": {"torch": "2.11.0"},
  "shape": {"hidden_size": 8, "intermediate_size": 32, "attention_heads": 1, "key_value_heads": 1, "head_size": 8,
            "vocabulary_size": 16},
  "inventory": {
    "before": [["embed.weight", [16, 8], "token_embedding"]], "modules": [[0]],
    "kinds": [{"tensors": [["layers.{}.up.weight", [32, 8], "mlp", "linear"]], "modules": [[], [0]]}],
    "layers": [0, 0],
    "after": [["norm.weight", [8], "norm", "idle"]]},
  "sections": [
    [0],
    [1, 0, -2],
    [["loss"], ["loss_backward"], 1, ["free", 0, -1], ["backward"], -2],
    [2, ["gradient", 0, null, 2, null], -1],
    [3, ["gradient", 0, null, 2, null], -1],
    [1, 0, -2]],
  "tapes": [{"batch": 2, "sequence": [1, null], "sizes": [[0, 0, 0, 0, 100], [512], [512], [256]],
             "around": {"forward": 0, "head": 2, "backward": 3, "blocks": 3},
             "kinds": [{"forward": 1, "backward": 4, "blocks": 3}, {"forward": 5, "backward": 4, "blocks": 3}],
             "layers": [0, 1]}],
  "notes": ["lora: peft is not installed"]
})";

Json small() { return parse_json(kSmall, "small"); }
Model read(const Json& document) { return read_recorded_model(JsonReader(document, "m.json")); }

std::string message_of(const Json& document) {
  try {
    (void)read(document);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

Json changed(const std::string& pointer, const Json& value) {
  Json document = small();
  document[Json::json_pointer(pointer)] = value;
  return document;
}

TEST(RecordedModel, IsReadWhole) {
  Json document = small();
  // The last layer frees its first block in its backward, so the head must not.
  document["sections"][2] = parse_json(R"([["loss"], ["loss_backward"], 1, ["backward"], -2])", "head");
  const Model model = read(document);
  EXPECT_EQ(model.name, "small");
  EXPECT_EQ(parameters(model).value, 16 * 8 + 2 * 32 * 8 + 8);
  EXPECT_EQ(model.shape.layers, 2);
  EXPECT_EQ(model.inventory.kinds[0].tensors[0].module, "up");
  ASSERT_TRUE(model.inventory.kinds[0].tensors[0].linear);
  EXPECT_TRUE(model.inventory.after[0].idle);
  ASSERT_NE(model.recorded, nullptr);
  EXPECT_EQ(model.recorded->recorded_with, "torch 2.11.0");
  const RecordedTape& tape = model.recorded->tapes.at(0);
  EXPECT_EQ(tape.sizes[0].at(3, 7, 0), Bytes(2100));
  EXPECT_EQ(tape.layers, (std::vector<std::size_t>{0, 1}));
}

TEST(RecordedModel, WithoutTapesIsPlannedByAnalogy) {
  const Model model = read(changed("/tapes", Json::array()));
  EXPECT_EQ(model.recorded, nullptr);
  ASSERT_NE(model.analogue, nullptr);
  EXPECT_EQ(model.analogue->shape.architecture, "llama");
  EXPECT_NE(model.inventory, model.analogue->inventory);
}

TEST(RecordedModel, SizesAreRoundedUpAndNeverNegative) {
  EXPECT_EQ((RecordedSize{.over = 2, .coefficients = {1}}.at(1, 1, 0)), Bytes(1));
  EXPECT_EQ((RecordedSize{.over = 1, .coefficients = {0, 0, 3}}.at(1, 1000, 0)), Bytes(3'000'000));
  EXPECT_EQ((RecordedSize{.over = 1, .coefficients = {-5, 1}}.at(1, 2, 0)), Bytes(0));
  EXPECT_EQ((RecordedSize{.over = 1, .coefficients = {0, 0, 0, 0, 0, 0, 10}}.at(1, 1, 16)), Bytes(160));
}

TEST(RecordedModel, WhatIsBrokenIsNamed) {
  EXPECT_THAT(message_of(small()), HasSubstr("m.json#/tapes/0: section 4 frees block 0, which is not there"));
  EXPECT_THAT(message_of(changed("/format", "zplan.model/2")),
              HasSubstr("m.json#/format: \"zplan.model/2\""));
  EXPECT_THAT(message_of(changed("/inventory/layers", Json::array())),
              HasSubstr("/inventory/layers: 0 layers"));
  EXPECT_THAT(message_of(changed("/inventory/layers/0", 7)), HasSubstr("/inventory/layers/0"));
  EXPECT_THAT(message_of(changed("/sections/1/0", 9)), HasSubstr("allocates size 9 of 4"));
  EXPECT_THAT(message_of(changed("/sections/0/0", Json{"frobnicate"})), HasSubstr("/sections/0/0/0"));
  EXPECT_THAT(message_of(changed("/sections/3/1/1", 5)), HasSubstr("m.json#/"));
  EXPECT_THAT(message_of(changed("/tapes/0/layers", Json{0})), HasSubstr("/tapes/0/layers: 1 layers"));
  EXPECT_THAT(message_of(changed("/shape/hidden_size", -1)), HasSubstr("/shape/hidden_size"));
  EXPECT_THAT(message_of(changed("/tapes/0/unknown", 1)), HasSubstr("/tapes/0"));
}

/// Counts that would need unbounded memory or time, or overflow, are refused before they are used.
TEST(RecordedModel, HostileCountsAreRefused) {
  Json tower = small();
  Json block = {{"from", 0}, {"blocks", 1024}, {"tensors", Json::array()}};
  for (int i = 0; i < 1200; ++i) block["tensors"].push_back({"tower.{}.w", {1, 1}, "other"});
  tower["inventory"]["before"].push_back(block);
  EXPECT_THAT(message_of(tower), HasSubstr("m.json#/inventory/before/1: more than 2^20 tensors"));

  Json layers = small();
  for (int i = 0; i < 1200; ++i)
    layers["inventory"]["kinds"][0]["tensors"].push_back({"layers.{}.w", {1}, "other"});
  layers["inventory"]["layers"] = Json(std::vector<int>(1024, 0));
  EXPECT_THAT(message_of(layers), HasSubstr("m.json#/inventory/layers: more than 2^20 tensors"));

  Json blocks = small();
  blocks["inventory"]["layers"] = Json(std::vector<int>(1024, 0));
  blocks["tapes"][0]["layers"] = Json(std::vector<int>(1024, 0));
  blocks["tapes"][0]["kinds"][0]["blocks"] = 1 << 22;
  EXPECT_THAT(message_of(blocks), HasSubstr("m.json#/tapes/0: 4294967299 blocks in all layers"));

  const std::int64_t most = std::int64_t{1} << 40;
  const Json extents = {most, most, 0};
  EXPECT_THAT(message_of(changed("/inventory/before/0/1", extents)),
              HasSubstr("/inventory/before/0/1: extents"));
  EXPECT_THAT(message_of(changed("/inventory/buffers", -1)), HasSubstr("/inventory/buffers"));
  EXPECT_THAT(message_of(changed("/tapes/0/kinds/0/modules", Json{{0}, {7}})),
              HasSubstr("m.json#/tapes/0: a module holds parameter 7 of 1"));
}

/// Whatever happens to its text, a document is read or refused with its place.
TEST(RecordedModel, RandomlyBroken) {
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string text =
        mutated(kSmall, {"null", "[]", "{}", "-1", "\"model\"", "1e30", "99999999999"}, random);
    try {
      const Json document = parse_json(text, "m.json");
      (void)read(document);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("m.json"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

/// Parameters of transformers' default configurations, where no descriptor reads them.
TEST(RecordedLibrary, ParametersAreExact) {
  const std::string data = ZPLAN_TEST_DATA;
  const std::string path = data + "/reference/architectures/counts.json";
  const Json counts = parse_json(read_file(path), path);
  const std::vector<std::string> described = supported_architectures();
  int exact = 0, by_descriptor = 0;
  for (const JsonReader& row : JsonReader(counts, path).items()) {
    const std::string name = row.at("model_type").text();
    if (std::find(described.begin(), described.end(), name) != described.end()) {
      ++by_descriptor;
      continue;
    }
    const std::string file = data + "/../models/recorded/files/" + name + "@default.json";
    const Json document = parse_json(read_file(file), file);
    EXPECT_EQ(parameters(read(document)).value, row.at("parameters").integer(1, std::int64_t{1} << 50))
        << name;
    ++exact;
  }
  EXPECT_EQ(exact + by_descriptor, static_cast<int>(counts.size()));
  EXPECT_GT(exact, 100);
}

TEST(RecordedLibrary, ConfigsAreFoundByWhatTheySay) {
  const std::vector<RecordedArchitecture> known = recorded_architectures();
  const auto mamba =
      std::find_if(known.begin(), known.end(), [](const auto& each) { return each.name == "mamba2"; });
  ASSERT_NE(mamba, known.end());
  EXPECT_GE(mamba->sizes_with_steps, 1);
  const auto found = [](const Json& config) { return recorded_model(JsonReader(config, "config.json")); };
  const auto model = found({{"model_type", "mamba2"}, {"hidden_size", 2048}, {"num_hidden_layers", 6}});
  ASSERT_TRUE(model);
  EXPECT_EQ(model->shape.layers, 6);
  EXPECT_FALSE(found({{"model_type", "mamba2"}, {"hidden_size", 2049}, {"num_hidden_layers", 6}}));
  EXPECT_FALSE(found({{"model_type", "mamba3"}, {"hidden_size", 2048}}));
}

}  // namespace
}  // namespace zplan
