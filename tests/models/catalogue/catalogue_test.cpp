// The catalogue against counts that others made: transformers, and what the models' authors published.
#include "models/catalogue/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/catalogue/lookup.h"

namespace zplan {
namespace {

const std::string kReference = std::string(ZPLAN_TEST_DATA) + "/reference/";

Json read_json(const std::string& path) { return parse_json(read_file(path), path); }

std::int64_t count(std::string_view name) { return parameters(resolve_model(name, {})).value; }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

TEST(Catalogue, HoldsTheModelsThatPeopleTrain) {
  EXPECT_GE(catalogue().size(), 180U);
  for (const char* name :
       {"Qwen3-235B-A22B", "Llama-3.1-405B", "Mistral-Nemo-12B", "Mistral-Large-2407", "Mixtral-8x22B",
        "DeepSeek-R1", "DeepSeek-V2-Lite", "QwQ-32B", "gpt-oss-20b", "OLMo-2-32B", "falcon-180B", "mpt-30b",
        "ChatGLM3-6B", "Baichuan2-13B", "phi-4", "gemma-3-12b-it", "vicuna-7b", "Qwen2.5-Coder-32B"})
    EXPECT_EQ(resolve_model(name, {}).source, ModelSource::catalogue) << name;
}

TEST(Catalogue, IsSortedByName) {
  const auto by_name = [](const CatalogueEntry& a, const CatalogueEntry& b) { return a.name < b.name; };
  EXPECT_TRUE(std::is_sorted(catalogue().begin(), catalogue().end(), by_name));
}

TEST(Catalogue, EveryFileOfTheFolderIsCompiledIn) {
  const std::filesystem::path folder =
      std::filesystem::path(ZPLAN_TEST_DATA).parent_path() / "models/catalogue";
  std::size_t entries = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    // parse_json refuses keys that stand twice, which the program does not look for.
    if (file.path().extension() == ".json" && name != "catalogue.schema.json")
      entries += read_json(file.path().string()).size();
  }
  EXPECT_EQ(catalogue().size(), entries);
}

// The program looks into few of them; read whole they say the same.
TEST(Catalogue, EveryEntryIsWhatAReaderOfItsFileFinds) {
  const std::filesystem::path folder =
      std::filesystem::path(ZPLAN_TEST_DATA).parent_path() / "models/catalogue";
  std::map<std::string, CatalogueEntry> read;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (file.path().extension() != ".json" || name == "catalogue.schema.json") continue;
    for (const CatalogueEntry& each : read_entries(read_json(file.path().string()), name))
      read[each.name] = each;
  }
  for (const CatalogueEntry& entry : catalogue()) {
    const CatalogueEntry& whole = read.at(entry.name);
    EXPECT_EQ(entry.aliases, whole.aliases) << entry.name;
    EXPECT_EQ(entry.source, whole.source) << entry.name;
    EXPECT_EQ(entry.revision, whole.revision) << entry.name;
    EXPECT_EQ(Json::parse(entry.config), Json::parse(whole.config)) << entry.name;
  }
}

TEST(Catalogue, EveryEntryIsAModelWithASource) {
  for (const CatalogueEntry& entry : catalogue()) {
    const Model model = catalogue_model(entry);
    EXPECT_EQ(model.name, entry.name);
    EXPECT_GT(parameters(model).value, 10'000'000) << entry.name;
    EXPECT_LE(active_parameters(model), parameters(model)) << entry.name;
    EXPECT_THAT(model.origin, testing::HasSubstr("config.json")) << entry.name;
  }
}

TEST(Catalogue, NoTwoEntriesShareAName) {
  std::map<std::string, std::string> owner;
  for (const CatalogueEntry& entry : catalogue()) {
    std::set<std::string> names{lower(entry.name), lower(entry.name.substr(entry.name.find('/') + 1))};
    for (const std::string& alias : entry.aliases)
      EXPECT_TRUE(names.insert(lower(alias)).second) << alias << " says nothing new of " << entry.name;
    for (const std::string& name : names) EXPECT_TRUE(owner.emplace(name, entry.name).second) << name;
  }
}

TEST(Catalogue, CountsAreThoseOfTransformersForTheReferenceModels) {
  const Json reference = read_json(kReference + "parameter_counts/parameter_counts.json")["models"];
  ASSERT_EQ(reference.size(), 78U);
  for (const auto& [name, model] : reference.items()) {
    EXPECT_EQ(count(name), model["total"].get<std::int64_t>()) << name;
    EXPECT_EQ(resolve_model(name, {}).shape.architecture,
              name == "InternLM2-7B" ? "internlm2" : model["model_type"])
        << name;
  }
}

TEST(Catalogue, CountsAreThoseOfTransformersForEveryNativeModel) {
  const Json reference = read_json(kReference + "catalogue_parameters/transformers.json")["parameters"];
  std::size_t compared = 0;
  for (const CatalogueEntry& entry : catalogue()) {
    static const std::set<std::string> remote{"bailing_moe",  "baichuan", "chatglm",   "deepseek",
                                              "exaone",       "internlm", "internlm2", "internvl_chat",
                                              "kimi_k2",      "kimi_vl",  "mimo",      "minicpm",
                                              "nemotron-nas", "orion",    "qwen"};
    if (remote.count(Json::parse(entry.config)["model_type"].get<std::string>()) != 0) continue;
    ASSERT_TRUE(reference.contains(entry.name)) << entry.name;
    EXPECT_EQ(parameters(catalogue_model(entry)).value, reference[entry.name].get<std::int64_t>())
        << entry.name;
    ++compared;
  }
  EXPECT_EQ(compared, reference.size());
}

TEST(Catalogue, CountsAreThePublishedOnesToTheLastDigit) {
  const Json published = read_json(kReference + "published_parameters.json")["parameters"];
  EXPECT_GE(published.size(), 100U);
  for (const auto& [name, total] : published.items())
    EXPECT_EQ(count(name), total.get<std::int64_t>()) << name;
}

TEST(Catalogue, ActiveParametersAreThoseInTheNamesOfMixtures) {
  const std::map<std::string, double> billions{{"Qwen3-30B-A3B", 3.3}, {"Qwen3-235B-A22B", 22.0},
                                               {"DeepSeek-V3", 37.0},  {"DeepSeek-V2", 21.0},
                                               {"Mixtral-8x7B", 12.9}, {"gpt-oss-120b", 5.1}};
  for (const auto& [name, expected] : billions) {
    const auto active = static_cast<double>(active_parameters(resolve_model(name, {})).value);
    EXPECT_NEAR(active / 1e9, expected, expected * 0.15) << name;
  }
}

}  // namespace
}  // namespace zplan
