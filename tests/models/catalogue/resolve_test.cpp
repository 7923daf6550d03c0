// Values of --model other than names of the catalogue: sizes, files, folders, the Hugging Face cache, own
// models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/lookup.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kTiny =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 160})";
// 2 · 160 · 64 + 2 · (4 · 64² + 3 · 64 · 96 + 2 · 64) + 64
constexpr Elements kTinyParameters{90'432};

/// A folder of its own for each test.
class Resolve : public testing::Test {
 protected:
  Resolve() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("zplan_resolve_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Resolve() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& inside) const { return (folder_ / inside).string(); }

  std::string write(const std::string& inside, const std::string& text) const {
    fs::create_directories((folder_ / inside).parent_path());
    std::ofstream(folder_ / inside) << text;
    return path(inside);
  }

  [[nodiscard]] Model resolve(const std::string& text) const {
    return resolve_model(text, {.user_models = path("models"), .hub_cache = path("hub")});
  }

  [[nodiscard]] InputError refusal(const std::string& text) const {
    try {
      return InputError("taken as", resolve(text).name, "");
    } catch (const InputError& error) {
      return error;
    }
  }

 private:
  fs::path folder_;
};

TEST_F(Resolve, ASizeIsAModelOfThatSize) {
  const Model model = resolve("0.5B");
  EXPECT_EQ(parameters(model), Elements(500'000'000));
  EXPECT_EQ(model.source, ModelSource::size);
  EXPECT_EQ(refusal("0B").accepted(), "accepted: sizes from 1M to 100T");
  EXPECT_EQ(refusal("101T").accepted(), "accepted: sizes from 1M to 100T");
}

TEST_F(Resolve, AConfigFileIsReadAndNamedAfterTheFile) {
  const Model model = resolve(write("mine.json", kTiny));
  EXPECT_EQ(parameters(model), kTinyParameters);
  EXPECT_EQ(model.name, "mine");
  EXPECT_EQ(model.source, ModelSource::config);
  EXPECT_EQ(model.origin, path("mine.json"));
}

TEST_F(Resolve, AFolderHoldsAConfigAndGivesItsName) {
  write("Tiny-90K/config.json", kTiny);
  for (const char* written :
       {"Tiny-90K", "Tiny-90K/", "Tiny-90K/config.json", "Tiny-90K/../Tiny-90K/config.json"}) {
    const Model model = resolve(path(written));
    EXPECT_EQ(model.name, "Tiny-90K") << written;
    EXPECT_EQ(parameters(model), kTinyParameters) << written;
  }
}

TEST_F(Resolve, NameOrPathInTheConfigWins) {
  Json config = Json::parse(kTiny);
  config["_name_or_path"] = "someone/Tiny";
  EXPECT_EQ(resolve(write("a/config.json", config.dump())).name, "someone/Tiny");
  config["_name_or_path"] = "";
  EXPECT_EQ(resolve(write("a/config.json", config.dump())).name, "a");
}

TEST_F(Resolve, ACatalogueNameAndItsConfigAreTheSameModel) {
  for (const CatalogueEntry& entry : catalogue()) {
    const Model named = resolve(entry.name);
    const Model read = resolve(write("it/config.json", entry.config));
    EXPECT_EQ(named.shape, read.shape) << entry.name;
    EXPECT_EQ(named.inventory, read.inventory) << entry.name;
  }
}

TEST_F(Resolve, AMissingPathIsCalledMissing) {
  for (const std::string& text :
       {path("nowhere"), path("nowhere/config.json"), std::string("./nowhere"), std::string("../nowhere"),
        std::string("nowhere.json"), std::string("~/nowhere")}) {
    const InputError error = refusal(text);
    EXPECT_EQ(error.place(), "--model") << text;
    EXPECT_THAT(error.found(), HasSubstr("there is no file or folder")) << text;
    EXPECT_THAT(error.found(), HasSubstr("nowhere")) << text;
  }
}

// Recipes name folders of the machine that they run on.
TEST_F(Resolve, AMissingPathThatIsCalledAsAModelIsThatModel) {
  const std::vector<std::pair<std::string, std::string>> meant{
      {"/models/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B"},
      {"/data/llm/Qwen3-8B/", "Qwen/Qwen3-8B"},
      {"./Qwen3-8B", "Qwen/Qwen3-8B"},
      {"~/ckpt/Llama-3.1-8B-my-data/checkpoint-500", "meta-llama/Llama-3.1-8B"},
      {"/hub/models--Qwen--Qwen3-8B/snapshots/b968826d9c46dd6066d109eabc6255188de91218", "Qwen/Qwen3-8B"},
      {"/cache/modelscope/models/Qwen/Qwen2___5-7B-Instruct", "Qwen/Qwen2.5-7B"},
      {"/models/Qwen3-8B/config.json", "Qwen/Qwen3-8B"},
      {"models/qwen/Qwen3-8B", "Qwen/Qwen3-8B"}};
  for (const auto& [path, model] : meant) {
    const Model found = resolve(path);
    EXPECT_EQ(found.name, path);
    EXPECT_EQ(parameters(found), parameters(resolve(model))) << path;
    EXPECT_EQ(found.read_as, path + " is not here: " + model + " is planned, which the folder is called");
  }
  for (const char* path : {"/models/8B", "/models/mine", "/models/Qwen3-8B-Eagle3", "/Qwen3-8B/other/mine"})
    EXPECT_THAT(refusal(path).found(), HasSubstr("there is no file or folder")) << path;
}

TEST_F(Resolve, AFolderThatIsThereIsReadWhateverItIsCalled) {
  write("Qwen3-8B/config.json", kTiny);
  EXPECT_EQ(parameters(resolve(path("Qwen3-8B"))), kTinyParameters);
  write("Llama-3.1-8B/readme.txt", "nothing");
  EXPECT_THAT(refusal(path("Llama-3.1-8B")).found(), HasSubstr("no config.json"));
}

TEST_F(Resolve, AFolderWithoutConfigIsNamed) {
  write("empty/readme.txt", "nothing");
  const InputError error = refusal(path("empty"));
  EXPECT_THAT(error.found(), HasSubstr(path("empty")));
  EXPECT_THAT(error.found(), HasSubstr("no config.json"));
}

TEST_F(Resolve, WhatIsNoConfigIsNamedWithItsFile) {
  EXPECT_EQ(refusal(write("broken.json", "{\"model_type\": ")).place(), path("broken.json"));
  EXPECT_THAT(refusal(write("other.json", R"({"model_type": "vision"})")).place(),
              HasSubstr(path("other.json")));
  EXPECT_THAT(refusal(write("list.json", "[1, 2]")).place(), HasSubstr(path("list.json")));
  EXPECT_EQ(refusal(write("empty.json", "")).place(), path("empty.json"));
  fs::create_directories(path("folder/config.json"));
  EXPECT_EQ(refusal(path("folder")).place(), path("folder/config.json"));
}

TEST_F(Resolve, AHubIdIsFoundInTheCacheAtItsMainRevision) {
  write("hub/models--someone--Tiny-90K/refs/main", "0123456789abcdef\n");
  write("hub/models--someone--Tiny-90K/snapshots/0123456789abcdef/config.json", kTiny);
  write("hub/models--someone--Tiny-90K/snapshots/old/config.json", "{}");
  const Model model = resolve("someone/Tiny-90K");
  EXPECT_EQ(parameters(model), kTinyParameters);
  EXPECT_EQ(model.name, "someone/Tiny-90K");
  EXPECT_EQ(model.source, ModelSource::cache);
  EXPECT_THAT(model.origin, HasSubstr("0123456789abcdef"));
}

TEST_F(Resolve, AnIdWithoutOrganisationIsFoundInTheCacheToo) {
  write("hub/models--tiny90k/refs/main", "abc");
  write("hub/models--tiny90k/snapshots/abc/config.json", kTiny);
  EXPECT_EQ(resolve("tiny90k").source, ModelSource::cache);
}

TEST_F(Resolve, ACacheWithoutTheConfigSaysWhatIsMissing) {
  fs::create_directories(path("hub/models--someone--part"));
  EXPECT_THAT(refusal("someone/part").found(), HasSubstr("refs/main"));
  write("hub/models--someone--part/refs/main", "abc");
  EXPECT_THAT(refusal("someone/part").found(), HasSubstr("snapshots/abc/config.json"));
}

TEST_F(Resolve, ARevisionCannotLeaveTheCache) {
  write("secret/config.json", kTiny);
  for (const char* revision : {"../../../secret", "", "..", "/"}) {
    write("hub/models--someone--evil/refs/main", revision);
    EXPECT_THAT(refusal("someone/evil").place(), HasSubstr("refs/main")) << revision;
  }
}

TEST_F(Resolve, TheCatalogueComesBeforeTheCache) {
  write("hub/models--Qwen--Qwen3-8B/refs/main", "abc");
  write("hub/models--Qwen--Qwen3-8B/snapshots/abc/config.json", kTiny);
  EXPECT_EQ(resolve("Qwen/Qwen3-8B").source, ModelSource::catalogue);
}

TEST_F(Resolve, OwnModelsAreReadFromTheFolder) {
  write("models/mine.json", R"([{"name": "me/Tiny", "aliases": ["my-tiny"], "config": )" + kTiny + "}]");
  write("models/single.json", R"({"name": "me/Other", "source": "a letter", "config": )" + kTiny + "}");
  for (const char* text : {"me/Tiny", "tiny", "MY-TINY", "mytiny"}) {
    const Model model = resolve(text);
    EXPECT_EQ(model.name, "me/Tiny") << text;
    EXPECT_EQ(model.source, ModelSource::config) << text;
    EXPECT_EQ(model.origin, path("models/mine.json")) << text;
  }
  EXPECT_EQ(resolve("other").origin, "a letter");
  EXPECT_THAT(refusal("me/Tinny").accepted(), HasSubstr("me/Tiny"));
}

TEST_F(Resolve, AnAmbiguousNameListsItsModels) {
  write("models/a.json", R"([{"name": "a/Twin", "config": {}}, {"name": "b/twin", "config": {}}])");
  const InputError error = refusal("twin");
  EXPECT_EQ(error.place(), "--model");
  EXPECT_EQ(error.accepted(), "accepted: one of a/Twin, b/twin");
}

TEST_F(Resolve, ABrokenEntryOfOnesOwnIsNamedByFileAndPlace) {
  const std::string file = write("models/a.json", R"([{"name": "a/b", "configuration": {}}])");
  EXPECT_THAT(refusal("a/b").place(), HasSubstr(file + "#/0"));
  write("models/a.json", R"([{"name": 7, "config": {}}])");
  EXPECT_EQ(refusal("a/b").place(), file + "#/0/name");
  write("models/a.json", R"([{"name": "a/b", "config": []}])");
  EXPECT_EQ(refusal("a/b").place(), file + "#/0/config");
  write("models/a.json", "[1]");
  EXPECT_THAT(refusal("a/b").place(), HasSubstr(file));
}

}  // namespace
}  // namespace zplan
