// Repairs: they take their finding away, touch nothing else, and leave nothing that could be repaired.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lint_support.h"

namespace zplan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string fixed(const std::string& text, const LintOptions& options = {}) {
  return fix(text, "ds.json", options).text;
}

TEST(LintFix, KeepsOrderNumbersAndLayout) {
  const std::string text = R"({
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8,  "stage3_max_live_parameters": 1e9},
    "gradient_clipp1ng": 1.00, // as in the paper
    "train_micro_batch_size_per_gpu":   4,
})";
  EXPECT_EQ(fixed(text), R"({
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8},
    "gradient_clipping": 1.00,
    "train_micro_batch_size_per_gpu":   4
})");
}

TEST(LintFix, OldSwitchesBecomeSections) {
  EXPECT_EQ(
      fixed(R"({"train_batch_size": 8, "zero_optimization": {"stage": 3, "cpu_offload": true}})"),
      R"({"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}})");
  EXPECT_EQ(fixed(R"({"train_batch_size": 8, "zero_optimization": true})"),
            R"({"train_batch_size": 8, "zero_optimization": {"stage": 1}})");
  EXPECT_EQ(fixed(R"({"train_batch_size": 8, "bfloat16": {"enabled": true}})"),
            R"({"train_batch_size": 8, "bf16": {"enabled": true}})");
}

TEST(LintFix, ClippingMovesToWhereItWorks) {
  EXPECT_EQ(
      fixed(
          R"({"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "max_grad_norm": 0.50}}})"),
      R"({"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}, "gradient_clipping": 0.50})");
}

TEST(LintFix, LeavesAloneWhatOnlyTheWriterKnows) {
  for (const char* text :
       {R"({"train_batch_size": 8, "bf16": {"enabled": true}, "fp16": {"enabled": true}})",
        R"({"train_batch_size": 9, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1})",
        R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "something_else_entirely": 1}})",
        R"({"train_batch_size": 8, "train_batch_size": 16})"}) {
    EXPECT_EQ(fixed(text), text);
    EXPECT_TRUE(has_errors(lint(text, "ds.json", {.gpus = 4}))) << text;
  }
}

/// Every text of the records, broken in as many ways.
std::vector<std::string> texts() {
  std::vector<std::string> all;
  for (const Json& record : test_json("reference/ds_config/lint.json")) all.push_back(record.at("text"));
  return all;
}

TEST(LintFix, TwiceChangesNothingAndLeavesNothingToRepair) {
  const std::vector<std::string> all = texts();
  ASSERT_GE(all.size(), 200U);
  for (const std::string& text : all)
    for (const ConfigStyle style : {ConfigStyle::plain, ConfigStyle::hf_auto}) {
      const LintOptions options{.style = style, .gpus = 4};
      const FixedText once = fix(text, "ds.json", options);
      const FixedText twice = fix(once.text, "ds.json", options);
      EXPECT_EQ(twice.text, once.text) << text;
      EXPECT_THAT(twice.fixed, IsEmpty()) << text;
      for (const Finding& each : lint(once.text, "ds.json", options))
        EXPECT_FALSE(each.fix) << once.text << "\n" << lines({each});
      EXPECT_LE(once.fixed.size(), 10U) << text;
    }
}

TEST(LintFix, ManyRepairsTakeFewRounds) {
  std::string text = "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 2";
  for (int i = 0; i < 3000; ++i)
    text += ", // one more\n\"none of its keys " + std::to_string(i) + "\": \"auto\"";
  const FixedText result = fix(text + ",}}", "ds.json");
  EXPECT_EQ(result.text, "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 2}}");
  EXPECT_EQ(result.fixed.size(), 6001U);
}

TEST(LintFix, SaysWhatItRepaired) {
  const FixedText result = fix(R"({"train_batch_size": 8, "amp": {}, "gradient_clipp1ng": 1.0})", "ds.json");
  EXPECT_THAT(named(result.fixed), ElementsAre("removed-key /amp", "unknown-key /gradient_clipp1ng"));
  EXPECT_EQ(result.fixed.back().fix->what, "rename to \"gradient_clipping\"");
}

/// DeepSpeed takes the file as it is: what it ignores silently stays as it is written.
TEST(LintFix, LeavesAloneWhatDeepSpeedIgnores) {
  const std::string text =
      R"({"_comment": "mine", "comment": "too", "train_batch_size": 8, "monitor_config": {"comet": {}},
 "comms_config": {"comms_logger": {}}, "cuda_visible_devices": "0,1"})";
  const FixedText result = fix(text, "ds.json");
  EXPECT_EQ(result.text, text);
  EXPECT_THAT(named(result.fixed), IsEmpty());
}

}  // namespace
}  // namespace zplan::testing
