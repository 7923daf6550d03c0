// Names as recipes write them.
#include "models/catalogue/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/lookup.h"

namespace zplan {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

std::string meant(std::string_view name) {
  const auto meaning = meaning_of_name(name);
  return meaning ? meaning->entry->name : "";
}

std::string packed(std::string_view name) {
  const auto meaning = meaning_of_name(name);
  return meaning && meaning->packed != nullptr ? meaning->packed->method : "";
}

TEST(Names, CopiesUnderOtherAccountsAreTheModel) {
  const std::map<std::string, std::string> copies{
      {"NousResearch/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B"},
      {"NousResearch/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"},
      {"LLM-Research/Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B"},
      {"unsloth/Meta-Llama-3.1-8B", "meta-llama/Llama-3.1-8B"},
      {"unsloth/Qwen3-14B", "Qwen/Qwen3-14B"},
      {"mlx-community/Qwen3-8B", "Qwen/Qwen3-8B"},
      {"qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B"}};
  for (const auto& [copy, model] : copies) EXPECT_EQ(meant(copy), model) << copy;
}

TEST(Names, VariantsOfTrainingHaveTheShape) {
  EXPECT_EQ(meant("Qwen/Qwen3-235B-A22B-Thinking-2507"), "Qwen/Qwen3-235B-A22B");
  EXPECT_EQ(meant("someone/Llama-3.1-8B-Instruct-SFT"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(meant("Llama-3.2-1B-Instruct"), "meta-llama/Llama-3.2-1B");
}

TEST(Names, PackedCopiesSayHow) {
  EXPECT_EQ(meant("unsloth/Qwen3-14B-bnb-4bit"), "Qwen/Qwen3-14B");
  EXPECT_EQ(packed("unsloth/Qwen3-14B-bnb-4bit"), "bitsandbytes");
  EXPECT_EQ(packed("unsloth/Qwen3-14B-unsloth-bnb-4bit"), "bitsandbytes");
  EXPECT_TRUE(packed_name("unsloth/Qwen3-14B-unsloth-bnb-4bit")->partly);
  EXPECT_EQ(packed("Qwen/Qwen2.5-7B-Instruct-AWQ"), "awq");
  EXPECT_EQ(packed("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4"), "gptq");
  EXPECT_EQ(packed("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic"), "compressed-tensors");
  EXPECT_EQ(packed("unsloth/Qwen3-8B-GGUF"), "gguf");
  EXPECT_EQ(packed("unsloth/Qwen3-8B-BF16"), "");
  EXPECT_EQ(meant("unsloth/Qwen3-8B-BF16"), "Qwen/Qwen3-8B");
}

TEST(Names, OfOtherShapesAreNeverDerived) {
  for (const char* name : {"Qwen/Qwen2.5-Math-PRM-7B", "Qwen/Qwen3-Reranker-8B", "THUDM/glm-4-9b-chat-1m",
                           "ZhipuAI/glm-4-9b-chat-1m", "allenai/llama-3-tulu-2-8b", "someone/Qwen3-8B-Eagle3",
                           "someone/Qwen3-8B-draft", "someone/Qwen3-9B", "someone/Qwen3-VL-9B",
                           "someone/Llama-3.1-8B-Reward", "a/b/Qwen3-8B", "", "/", "Qwen3-8B/"})
    EXPECT_EQ(meant(name), "") << name;
}

std::int64_t count_of(const std::string& name) {
  const auto meaning = meaning_of_name(name);
  return meaning ? parameters(model_of_meaning(*meaning)).value : 0;
}

// 8,030,261,248 of Llama 3.1 8B hold a head of 128,256 rows of 4,096; a row of Mistral's two matrices is
// 8,192.
TEST(Names, KnownSizesOfHeadsAndVocabulariesAreTheirs) {
  EXPECT_EQ(count_of("Skywork/Skywork-Reward-Llama-3.1-8B-v0.2"), 8'030'261'248 - 128'255 * 4'096);
  EXPECT_EQ(count_of("teknium/OpenHermes-2.5-Mistral-7B"), 7'241'732'096 + 2 * 2 * 4'096);
  EXPECT_EQ(count_of("liuhaotian/llava-v1.5-7b"), 7'063'427'072 - 64 * 2 * 4'096);
  EXPECT_EQ(count_of("allenai/Llama-3.1-Tulu-3-8B-RM"), 8'030'261'248 - 128'255 * 4'096 + 8 * 4'096);
  const Model reward = resolve_model("Skywork/Skywork-Reward-Llama-3.1-8B-v0.2", {});
  EXPECT_EQ(reward.name, "Skywork/Skywork-Reward-Llama-3.1-8B-v0.2");
  EXPECT_THAT(reward.read_as, HasSubstr("meta-llama/Llama-3.1-8B, with a head of one output"));
  EXPECT_FALSE(reward.shape.tied_embeddings);
}

std::string tuned(std::string_view name) {
  const auto meaning = tuned_meaning(name);
  return meaning ? meaning->entry->name : "";
}

TEST(Names, BeginningWithAModelAndItsSizeAreTakenForFineTunes) {
  EXPECT_EQ(tuned("Magpie-Align/Llama-3.1-8B-Magpie-Align-v0.2"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(tuned("me/Meta-Llama-3-8B-Instruct-my-data"), "meta-llama/Meta-Llama-3-8B");
  EXPECT_EQ(tuned("philschmid/qwen-2.5-3b-r1-countdown"), "Qwen/Qwen2.5-3B");
  EXPECT_EQ(tuned("me/Qwen3-VL-8B-Instruct-charts"), "Qwen/Qwen3-VL-8B-Instruct");
  EXPECT_STREQ(tuned_meaning("me/Qwen3-8B-recipes-AWQ")->packed->method.c_str(), "awq");
  const Model model = resolve_model("me/Qwen3-8B-recipes", {});
  EXPECT_EQ(model.name, "me/Qwen3-8B-recipes");
  EXPECT_THAT(model.read_as, HasSubstr("taken for a fine-tune of it by its name alone"));
}

TEST(Names, ThatMaySayAnotherShapeAreNotTakenForFineTunes) {
  for (const char* name : {"someone/Qwen3-8B-Eagle3",
                           "someone/Qwen3-8B-draft",
                           "someone/Llama-3.1-8B-Reward",
                           "someone/Qwen3-8B-RM",
                           "z-lab/Qwen3-4B-DFlash-b16",
                           "someone/Qwen3-8B-VL",
                           "someone/Qwen3-8B-Embedding",
                           "someone/Qwen3-8B-4B",
                           "someone/Qwen3-8x8B-mix",
                           "someone/Llama-3.1-8B-pruned",
                           "mistralai/ministral-8b-2512",
                           "ibm-fms/llama3-8b-accelerator",
                           "someone/chinese-llama-2-7b",
                           "someone/SliME-Llama3-8B",
                           "someone/Qwen3-new",
                           "neuralmagic/Sparse-Llama-3.1-8B-2of4",
                           "Qwen3-8B",
                           "",
                           "/",
                           "-"})
    EXPECT_EQ(tuned(name), "") << name;
}

TEST(Names, AReportSaysWhichModelIsPlanned) {
  const Model copy = resolve_model("unsloth/Qwen3-14B-unsloth-bnb-4bit", {});
  EXPECT_EQ(copy.name, "unsloth/Qwen3-14B-unsloth-bnb-4bit");
  EXPECT_EQ(copy.read_as,
            "unsloth/Qwen3-14B-unsloth-bnb-4bit is planned as Qwen/Qwen3-14B, a packed copy of it");
  EXPECT_EQ(copy.stored_as, "bitsandbytes");
  EXPECT_EQ(resolve_model("Qwen/Qwen3-14B", {}).read_as, "");
}

/// The names of language models in public recipe files, and the parameters of the model that each means.
TEST(Names, OfRecipesResolveWithoutNetwork) {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/model_names/recipes.json";
  const Json file = parse_json(read_file(path), path);
  constexpr double kLeastShare = 0.98;
  std::int64_t files = 0, resolved = 0;
  for (const Json& each : file.at("names")) {
    const auto name = each.at(0).get<std::string>();
    const auto times = each.at(1).get<std::int64_t>();
    files += times;
    const auto meaning = meaning_of_name(name);
    if (!meaning) continue;
    resolved += times;
    const auto count = each.at(3).get<std::int64_t>();
    EXPECT_EQ(parameters(model_of_meaning(*meaning)).value, count) << name << " as " << meaning->entry->name;
  }
  EXPECT_GE(static_cast<double>(resolved), kLeastShare * static_cast<double>(files))
      << resolved << " of " << files;
  for (const Json& each : file.at("other_shape")) EXPECT_EQ(meant(each.get<std::string>()), "") << each;
}

TEST(Names, UnknownOnesAreMetByFamilySizeAndModality) {
  const auto nearest = [](std::string_view name) { return near_names(name, 8, catalogue()); };
  EXPECT_EQ(nearest("open-r1/Qwen2.5-Math-7B-RoPE-301k").front(), "Qwen/Qwen2.5-7B");
  EXPECT_THAT(nearest("open-r1/Qwen2.5-Math-7B-RoPE-301k"), Each(Not(HasSubstr("gpt-oss"))));
  EXPECT_EQ(nearest("HuggingFaceH4/starchat2-15b-sft-v0.1").front(), "bigcode/starcoder2-15b");
  EXPECT_THAT(nearest("Qwen/Qwen3-9B").front(), HasSubstr("Qwen/Qwen3-8B"));
  EXPECT_THAT(nearest("Qwen/Qwen3-VL-9B").front(), HasSubstr("VL"));
  EXPECT_THAT(nearest("someone/Llama-3.3-72B-Instruct").front(), HasSubstr("70B"));
}

}  // namespace
}  // namespace zplan
