// Whatever stands in a file, lint reports or throws InputError, and its repairs stay JSON.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lint_support.h"
#include "planner/frameworks/deepspeed/config/keys.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"
#include "tests/mutated.h"

namespace zplan::testing {
namespace {

/// Counts the texts that could be read: a test of refusals alone would show nothing.
int survives(const std::string& text) {
  for (const LintOptions& options :
       {LintOptions{}, LintOptions{.style = ConfigStyle::hf_auto, .gpus = 3, .compute_capability = "6.1"}}) {
    try {
      (void)lint(text, "ds.json", options);
      const FixedText once = fix(text, "ds.json", options);
      EXPECT_EQ(fix(once.text, "ds.json", options).text, once.text) << text;
    } catch (const InputError&) {
      return 0;
    }
  }
  return 1;
}

TEST(LintRobust, SurvivesMutations) {
  const std::vector<std::string> words{"null", "true", "[]",    "{}", "\"auto\"", "1e308", "-1", "NaN",
                                       "//",   "/*",   "\"a\"", ",,", "}",        "5e8",   "\\"};
  std::mt19937 random(20240611);
  int read = 0, tried = 0;
  for (const Json& record : test_json("reference/ds_config/lint.json"))
    for (int i = 0; i < 8; ++i, ++tried) read += survives(mutated(record.at("text"), words, random));
  EXPECT_GT(read, tried / 10) << "mutations that JSON readers take";
}

TEST(LintRobust, SurvivesEveryKindOfValueAtEveryKey) {
  const std::vector<Json> values{nullptr,
                                 true,
                                 0,
                                 -1,
                                 1.5,
                                 1e300,
                                 "auto",
                                 "",
                                 "cpu",
                                 Json::array(),
                                 Json::array({1, "a"}),
                                 Json::object(),
                                 Json{{"device", 3}},
                                 18446744073709551615ULL};
  int read = 0;
  for (const DsSection& section : ds_keys().sections)
    for (const std::string& key : section.keys)
      for (const Json& value : values) {
        Json config = {{"train_batch_size", 8}};
        config[Json::json_pointer(section.pointer + "/" + key)] = value;
        read += survives(config.dump());
      }
  EXPECT_GE(read, 3000);
}

TEST(LintRobust, SurvivesSectionsOfEveryKind) {
  for (const Json& value :
       {Json(nullptr), Json(true), Json(3), Json("auto"), Json::array({1}), Json::object()})
    for (const DsSection& section : ds_keys().sections) {
      if (section.pointer.empty()) continue;
      Json config = {{"train_batch_size", 8}};
      config[Json::json_pointer(section.pointer)] = value;
      EXPECT_EQ(survives(config.dump()), 1) << config;
    }
}

TEST(LintRobust, DocumentsThatAreNoObject) {
  for (const char* text : {"[]", "[1, {\"a\": 2}]", "3", "null", "\"auto\"", "true"})
    EXPECT_EQ(lint(text, "ds.json").front().rule, "not-an-object") << text;
}

TEST(LintRobust, KeysWithSlashesAndTildes) {
  const auto findings = lint(R"({"train_batch_size": 8, "a/b~c": 1, "": {"": 1}})", "ds.json");
  EXPECT_EQ(of_rule(findings, "ignored-key").front().pointer, "/a~1b~0c");
}

TEST(LintRobust, DeepNestingIsRefusedOrRead) {
  std::string deep = R"({"train_batch_size": 8, "x": )";
  for (int i = 0; i < 40; ++i) deep += "{\"x\": ";
  deep += "1" + std::string(40, '}') + "}";
  EXPECT_EQ(survives(deep), 1);
  EXPECT_THROW((void)lint(std::string(100'000, '['), "ds.json"), InputError);
}

}  // namespace
}  // namespace zplan::testing
