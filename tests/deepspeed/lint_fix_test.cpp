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

// ---- of several corrections the one that keeps what was most likely meant

std::string batch_on(const std::string& text, std::int64_t gpus) { return fixed(text, {.gpus = gpus}); }

TEST(LintFix, KeepsTheBatchByAccumulation) {
  EXPECT_EQ(
      batch_on(
          R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1})",
          8),
      R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2})");
  // One micro-batch of 2 on 8 GPUs is more than the batch: a smaller one needs no more memory.
  EXPECT_EQ(
      batch_on(
          R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1})",
          8),
      R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1})");
  EXPECT_EQ(
      batch_on(R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 4})", 4),
      R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2})");
  EXPECT_EQ(batch_on(R"({"train_batch_size": 24, "gradient_accumulation_steps": 4})", 4),
            R"({"train_batch_size": 24, "gradient_accumulation_steps": 3})");
}

TEST(LintFix, ABatchThatGpusCannotShareBecomesTheNearest) {
  EXPECT_EQ(
      batch_on(
          R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1})",
          8),
      R"({"train_batch_size": 96, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3})");
  EXPECT_EQ(
      batch_on(
          R"({"train_batch_size": 9, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1})",
          8),
      R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1})");
}

/// Whatever the three numbers are, what --fix writes is a batch that DeepSpeed takes, and no micro-batch
/// grows while the batch stays.
TEST(LintFix, EveryBatchEndsWithoutAnError) {
  for (const std::int64_t gpus : {1, 3, 8, 12})
    for (const std::int64_t train : {1, 7, 8, 24, 96, 1000})
      for (const std::int64_t micro : {1, 2, 3, 16})
        for (const std::int64_t steps : {1, 2, 5}) {
          const Json config{{"train_batch_size", train},
                            {"train_micro_batch_size_per_gpu", micro},
                            {"gradient_accumulation_steps", steps}};
          const std::string text = batch_on(config.dump(), gpus);
          const Json now = Json::parse(text);
          EXPECT_FALSE(has_errors(lint(text, "ds.json", {.gpus = gpus}))) << text << " on " << gpus;
          EXPECT_EQ(now.at("train_batch_size"),
                    now.at("train_micro_batch_size_per_gpu").get<std::int64_t>() *
                        now.at("gradient_accumulation_steps").get<std::int64_t>() * gpus);
          if (train % gpus == 0) {
            EXPECT_EQ(now.at("train_batch_size"), train) << text << " on " << gpus;
            EXPECT_LE(now.at("train_micro_batch_size_per_gpu"), micro) << text << " on " << gpus;
          }
        }
}

TEST(LintFix, ABatchAloneBecomesTheNearestThatGpusShare) {
  EXPECT_EQ(batch_on(R"({"train_batch_size": 30})", 8), R"({"train_batch_size": 32})");
}

TEST(LintFix, SaysTheOtherCorrectionsBesideIt) {
  const auto findings = of_rule(
      lint(
          R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1})",
          "ds.json", {.gpus = 8}),
      "batch-product");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(
      findings.front().advice,
      "write \"gradient_accumulation_steps\": 2, which keeps the batch of 32; or write \"train_batch_size\": "
      "16; or run it on 16 GPUs");
  EXPECT_EQ(findings.front().others.size(), 1U);
}

/// DeepSpeed ignores offload_param before stage 3. To offload the optimizer instead, which nobody wrote, is
/// the writer's choice.
TEST(LintFix, OffersAnotherOffloadAndAddsNone) {
  const auto offered = [](const std::string& text) {
    EXPECT_EQ(fixed(text), text);
    const auto found = of_rule(lint(text, "ds.json"), "offload-without-effect");
    std::string all;
    if (found.size() == 1)
      for (const LintFix& each : found.front().others) all += each.what + "\n";
    return all;
  };
  EXPECT_EQ(
      offered(
          R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu", "pin_memory": true}}})"),
      "rename to \"offload_optimizer\": at stage 2 that is what goes to the host\nwrite \"stage\": 3\nleave "
      "it "
      "out\n");
  EXPECT_EQ(
      offered(
          R"({"train_batch_size": 8, "zero_optimization": {"stage": 1, "offload_param": {"device": "cpu", "max_in_cpu": 5}}})"),
      "rename to \"offload_optimizer\": at stage 1 that is what goes to the host\nwrite \"stage\": 3\nleave "
      "it "
      "out\n");
}

TEST(LintFix, MovesAnOffloadToTheKeyThatDoesIt) {
  EXPECT_EQ(
      fixed(R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_gradients": true}})"),
      R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})");
  EXPECT_EQ(
      fixed(R"({"train_batch_size": 8, "zero_optimization": {"offload_param": {"device": "cpu"}}})"),
      R"({"train_batch_size": 8, "zero_optimization": {"offload_param": {"device": "cpu"}, "stage": 3}})");
}

/// Offload that the stage does not do stays where another offload works or the stage is said: which of the
/// two was meant is the writer's to say.
TEST(LintFix, DeletesNoOffload) {
  for (
      const char* text :
      {R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}})",
       R"({"train_batch_size": 8, "zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}})"}) {
    EXPECT_EQ(fixed(text), text);
    const auto found = of_rule(lint(text, "ds.json"), "offload-without-effect");
    ASSERT_EQ(found.size(), 1U);
    EXPECT_GE(found.front().others.size(), 2U);
  }
}

TEST(LintFix, MovesASettingToItsSection) {
  EXPECT_EQ(fixed(R"({"train_batch_size": 8, "zero_stage": 2})"),
            R"({"train_batch_size": 8, "zero_optimization": {"stage": 2}})");
  EXPECT_EQ(fixed(R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "gradient_clipping": 0.5}})"),
            R"({"train_batch_size": 8, "zero_optimization": {"stage": 2}, "gradient_clipping": 0.5})");
  EXPECT_EQ(fixed(R"({"train_batch_size": 8, "mixed_precision": "bf16"})"),
            R"({"train_batch_size": 8, "bf16": {"enabled": true}})");
  EXPECT_EQ(fixed(R"({"train_batch_size": 8, "amp": {"enabled": true, "opt_level": "O1"}})"),
            R"({"train_batch_size": 8, "fp16": {"enabled": true}})");
  EXPECT_EQ(
      fixed(
          R"({"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_steps": 10, "total_steps": 90}}})"),
      R"({"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 10, "total_num_steps": 90}}})");
}

/// What only the script, or another release, can do stays to be read.
TEST(LintFix, DeletesNothingThatAsksForSomething) {
  for (const char* text : {R"({"train_batch_size": 8, "gradient_checkpointing": true})",
                           R"({"train_batch_size": 8, "curriculum_learning": {"enabled": true}})",
                           R"({"train_batch_size": 8, "progressive_layer_drop": {"enabled": true}})"})
    EXPECT_EQ(fixed(text), text);
  EXPECT_EQ(fixed(R"({"train_batch_size": 8, "curriculum_learning": {"enabled": false}})"),
            R"({"train_batch_size": 8})");
}

TEST(LintFix, TheGpuDecidesBetweenTwoPrecisions) {
  const std::string text = R"({"train_batch_size": 8, "bf16": {"enabled": true}, "fp16": {"enabled": true}})";
  EXPECT_EQ(fixed(text, {.compute_capability = "8.0"}),
            R"({"train_batch_size": 8, "bf16": {"enabled": true}, "fp16": {"enabled": false}})");
  EXPECT_EQ(fixed(text, {.compute_capability = "7.0"}),
            R"({"train_batch_size": 8, "bf16": {"enabled": false}, "fp16": {"enabled": true}})");
}

TEST(LintFix, WritesTheFolderThatWasGiven) {
  const std::string text =
      R"({"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}})";
  EXPECT_EQ(fixed(text), text);
  EXPECT_EQ(
      fixed(text, {.nvme_path = "/scratch"}),
      R"({"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/scratch"}}})");
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

// DeepSpeed ignores the misspelt key, and would stop at its value under the right name.
TEST(LintFix, RenamesNoValueThatTheKeyDoesNotTake) {
  const std::string text = R"({"train_micro_batch_size_per_gpu": 1, "train_bbatch_size": []})";
  EXPECT_EQ(fix(text, "ds.json").text, text);
}

// Source: DeepSpeed 0.19.8 runtime/precision_config.py _reject_non_integer_scale_params: the kind is checked
// whether fp16 is on or off.
TEST(LintFix, KindsOfScaleSettingsAreCheckedWithoutFp16) {
  const std::string text = R"({"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": false,
    "loss_scale_window": null, "min_loss_scale": []}})";
  const std::vector<Finding> found = lint(text, "ds.json");
  EXPECT_THAT(named(found),
              ElementsAre("wrong-kind /fp16/loss_scale_window", "wrong-kind /fp16/min_loss_scale"));
}

// A config of nothing but misspelt keys is read, too: the first of them are compared with what is known.
TEST(LintFix, OfManyUnknownKeysTheFirstAreCompared) {
  const auto findings_behind = [](int others) {
    std::string text = "{\"train_batch_size\": 8";
    for (int i = 0; i < others; ++i) text += ", \"colour" + std::to_string(i) + "\": 1";
    return lint(text + R"(, "gradient_clipp1ng": 1.0})", "ds.json");
  };
  EXPECT_EQ(of_rule(findings_behind(199), "unknown-key").size(), 1U);
  EXPECT_EQ(of_rule(findings_behind(200), "unknown-key").size(), 0U);
  EXPECT_EQ(of_rule(findings_behind(200), "ignored-key").size(), 201U);
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
