#include "models/catalogue/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/catalogue/catalogue.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string resolved(std::string_view text) { return resolve_model(text, {}).name; }

InputError refusal(std::string_view text) {
  try {
    return InputError("taken as", resolve_model(text, {}).name, "");
  } catch (const InputError& error) {
    return error;
  }
}

std::vector<std::string> found(std::string_view words) {
  std::vector<std::string> names;
  for (const CatalogueEntry* entry : search_catalogue(words)) names.push_back(entry->name);
  return names;
}

TEST(Lookup, TakesIdShortNameAndAliasInAnyCase) {
  for (const char* text :
       {"Qwen/Qwen3-8B", "qwen/qwen3-8b", "QWEN3-8B", "Qwen3-8B-Base", "Qwen/Qwen3-8B-Base"})
    EXPECT_EQ(resolved(text), "Qwen/Qwen3-8B") << text;
  EXPECT_EQ(resolved("llama-3-8b"), "meta-llama/Meta-Llama-3-8B");
  EXPECT_EQ(resolved("gpt2"), "openai-community/gpt2");
}

TEST(Lookup, IgnoresHyphensDotsUnderscoresColonsAndSpacesWhereNothingElseIsMeant) {
  EXPECT_EQ(resolved("llama3-8b"), "meta-llama/Meta-Llama-3-8B");
  EXPECT_EQ(resolved("Llama 3.1 8B"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(resolved("qwen3_8b"), "Qwen/Qwen3-8B");
  EXPECT_EQ(resolved("GPT2 XL"), "openai-community/gpt2-xl");
  EXPECT_EQ(resolved("qwen/qwen3 8b"), "Qwen/Qwen3-8B");
  EXPECT_EQ(resolved("qwen3:8b"), "Qwen/Qwen3-8B");
  EXPECT_EQ(near_names("qwen3:9b", 8, catalogue()), near_names("qwen3-9b", 8, catalogue()));
}

TEST(Lookup, ACopyUnderAnotherAccountIsTheModelAndIsSaid) {
  const Model copy = resolve_model("nobody/Qwen3-8B", {});
  EXPECT_EQ(copy.name, "nobody/Qwen3-8B");
  EXPECT_EQ(copy.read_as, "nobody/Qwen3-8B is planned as Qwen/Qwen3-8B, a copy of the same name");
  EXPECT_EQ(refusal("nobody/Qwen3-9B").place(), "--model");
}

TEST(Lookup, AnUnknownNameIsMetWithNearOnes) {
  const InputError error = refusal("Qwen/Qwen3-9B");
  EXPECT_EQ(error.place(), "--model");
  EXPECT_EQ(error.found(), "no model is known as \"Qwen/Qwen3-9B\"");
  EXPECT_THAT(error.accepted(), HasSubstr("did you mean Qwen/Qwen3-"));
  EXPECT_THAT(error.accepted(), HasSubstr("\"zplan models list\" shows all"));
  EXPECT_THAT(refusal("lama-3-8b").accepted(), HasSubstr("meta-llama/Meta-Llama-3-8B"));
  EXPECT_THAT(refusal("mixtral").accepted(), HasSubstr("mistralai/Mixtral-8x22B-v0.1"));
}

TEST(Lookup, TheBeginningOfANameSuggestsThatFamilyFirst) {
  EXPECT_THAT(near_names("llama-3", 8, catalogue()), testing::Each(HasSubstr("Llama-3")));
  EXPECT_EQ(near_names("mixtral", 8, catalogue()).front(), "mistralai/Mixtral-8x7B-v0.1");
}

TEST(Lookup, SuggestsAtMostEight) {
  for (const char* text : {"qwen", "llama", "b", "a", "Qwen2.5", "7b-instruct"}) {
    const auto names = near_names(text, 8, catalogue());
    EXPECT_LE(names.size(), 8U) << text;
    EXPECT_GE(names.size(), 1U) << text;
  }
  EXPECT_EQ(near_names("qwen", 8, catalogue()).size(), 8U);
}

TEST(Lookup, WhatIsNearNothingIsToldWhatIsTaken) {
  for (const std::string& text :
       {std::string("!!!"), std::string("\x1b[31m"), std::string(100'000, 'x'), std::string("ü")}) {
    const InputError error = refusal(text);
    EXPECT_EQ(error.place(), "--model");
    EXPECT_LT(std::string(error.what()).size(), 600U);
    EXPECT_EQ(std::string(error.what()).find_first_of("\n\x1b"), std::string::npos);
  }
}

TEST(Lookup, ANumberWithoutUnitIsToldToTakeOne) {
  EXPECT_THAT(refusal("8").accepted(), HasSubstr("8B"));
  EXPECT_THAT(refusal("").found(), HasSubstr("empty"));
}

TEST(Lookup, AmbiguousNamesListWhatTheyMayMean) {
  const std::vector<CatalogueEntry> entries{
      {.name = "one/Same-1B", .aliases = {}, .source = "", .revision = "", .config = {}},
      {.name = "two/same-1b", .aliases = {}, .source = "", .revision = "", .config = {}},
      {.name = "two/Same1.B", .aliases = {}, .source = "", .revision = "", .config = {}}};
  EXPECT_EQ(entries_named("same-1b", NameMatch::exact, entries).size(), 2U);
  EXPECT_EQ(entries_named("same1b", NameMatch::exact, entries).size(), 0U);
  EXPECT_EQ(entries_named("same1b", NameMatch::loose, entries).size(), 3U);
  EXPECT_EQ(entries_named("two/same-1b", NameMatch::exact, entries).size(), 1U);
  EXPECT_EQ(entries_named("-", NameMatch::loose, entries).size(), 0U);
}

TEST(Search, WantsEveryWordInOneName) {
  EXPECT_THAT(found("opt 13b"), ElementsAre("facebook/opt-13b"));
  EXPECT_THAT(found("QWEN3 a22b"), ElementsAre("Qwen/Qwen3-235B-A22B", "Qwen/Qwen3-VL-235B-A22B-Instruct"));
  EXPECT_THAT(found("qwq"), ElementsAre("Qwen/Qwen2.5-32B"));
  EXPECT_THAT(found("opt bloom"), ElementsAre());
}

TEST(Search, PutsTheModelsOwnNameBeforeAliasesAndShortBeforeLong) {
  const auto names = found("deepseek-r1");
  ASSERT_GE(names.size(), 3U);
  EXPECT_EQ(names.front(), "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B");
  EXPECT_EQ(names[1], "deepseek-ai/DeepSeek-V3");
}

TEST(Search, NoWordsFindAll) { EXPECT_EQ(found("  ").size(), catalogue().size()); }

}  // namespace
}  // namespace zplan
