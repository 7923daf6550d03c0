// Findings of lint that DeepSpeed does not report.

#include "planner/frameworks/deepspeed/config/lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lint_support.h"

namespace zplan::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json with(const char* key, Json value) {
  Json config = {{"train_batch_size", 8}, {"train_micro_batch_size_per_gpu", 2}};
  config[key] = std::move(value);
  return config;
}

Json zero(Json section) { return with("zero_optimization", std::move(section)); }

/// The one finding of a rule.
Finding only(const std::vector<Finding>& findings, std::string_view rule) {
  const std::vector<Finding> some = of_rule(findings, rule);
  EXPECT_EQ(some.size(), 1U) << rule << "\n" << lines(findings);
  return some.empty() ? Finding{} : some.front();
}

TEST(Lint, AllFindingsComeAtOnceByPlace) {
  const std::string text = R"({
  "train_batch_size": 8,
  "zero_optimization": {"stage": 2, "stage3_max_live_parameters": 1, "foo": 1},
  "amp": {}
})";
  const auto findings = lint(text, "ds.json");
  EXPECT_THAT(named(findings), ElementsAre("batch-gpus /train_batch_size",
                                           "no-effect /zero_optimization/stage3_max_live_parameters",
                                           "unknown-section-key /zero_optimization/foo", "removed-key /amp"));
  EXPECT_EQ(findings[1].place, (LineColumn{3, 37}));
  EXPECT_EQ(findings[2].place, (LineColumn{3, 70}));
}

TEST(Lint, OffloadGradientsIsNoKey) {
  const Finding found =
      only(linted(zero({{"stage", 2}, {"offload_gradients", {{"device", "cpu"}}}})), "unknown-section-key");
  EXPECT_EQ(found.pointer, "/zero_optimization/offload_gradients");
  EXPECT_EQ(found.outcome, Outcome::raises);
  EXPECT_THAT(found.advice, HasSubstr("offload_optimizer"));
}

TEST(Lint, TheTensorParallelDegreeIsAutotpSize) {
  const Json config = with("tensor_parallel", {{"enabled", true}, {"tp_size", 4}});
  const auto findings = of_rule(linted(config), "unknown-section-key");
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings.back().advice, HasSubstr("autotp_size"));
  const Json repaired = Json::parse(fix(config.dump(), "ds.json").text);
  EXPECT_EQ(repaired.at("tensor_parallel"), (Json{{"autotp_size", 4}}));
}

TEST(Lint, TheBatchMustBeMadeOfTheGpus) {
  const Json config = {
      {"train_batch_size", 32}, {"train_micro_batch_size_per_gpu", 4}, {"gradient_accumulation_steps", 2}};
  const Finding found = only(linted(config, {.gpus = 8}), "batch-product");
  EXPECT_EQ(found.severity, Severity::error);
  EXPECT_THAT(found.found, HasSubstr("32 is not 4 per GPU x 2 accumulation steps x 8 GPUs"));
  EXPECT_THAT(found.advice,
              AllOf(HasSubstr("write \"gradient_accumulation_steps\": 1, which keeps the batch of 32"),
                    HasSubstr("write \"train_batch_size\": 64"), HasSubstr("run it on 4 GPUs")));
  EXPECT_THAT(linted(config, {.gpus = 4}), IsEmpty());
  EXPECT_THAT(only(linted(config), "batch-gpus").effect, HasSubstr("than 4"));
  EXPECT_EQ(only(linted(config), "batch-gpus").severity, Severity::note);
}

TEST(Lint, SomeBatchesFitNoNumberOfGpus) {
  const Json config = {
      {"train_batch_size", 30}, {"train_micro_batch_size_per_gpu", 4}, {"gradient_accumulation_steps", 2}};
  EXPECT_EQ(only(linted(config), "batch-product").severity, Severity::error);
}

TEST(Lint, CommentsStopWhoeverReadsJson) {
  const std::string plain = "{\"train_batch_size\": 8 // ranks x 2\n}";
  const Finding found = only(lint(plain, "ds.json"), "comment");
  EXPECT_EQ(found.place, (LineColumn{1, 24}));
  EXPECT_EQ(found.severity, Severity::warning) << "DeepSpeed's own reader takes it";
  const std::string trainers = "{\"train_batch_size\": \"auto\" // ranks x 2\n}";
  EXPECT_EQ(only(lint(trainers, "ds.json"), "comment").severity, Severity::error);
  EXPECT_EQ(only(lint(plain, "ds.json", {.style = ConfigStyle::ms_swift}), "comment").severity,
            Severity::error);
}

TEST(Lint, GradientClipp1ngIsIgnoredSilently) {
  const Finding found = only(linted(with("gradient_clipp1ng", 1.0)), "unknown-key");
  EXPECT_EQ(found.severity, Severity::error);
  EXPECT_EQ(found.outcome, Outcome::ignored);
  EXPECT_THAT(found.advice, HasSubstr("gradient_clipping"));
  ASSERT_TRUE(found.fix);
}

TEST(Lint, OffloadedParametersNeedStage3) {
  const Finding found =
      only(linted(zero({{"stage", 2}, {"offload_param", {{"device", "cpu"}}}})), "offload-without-effect");
  EXPECT_EQ(found.pointer, "/zero_optimization/offload_param");
  EXPECT_EQ(found.outcome, Outcome::ignored);
  EXPECT_THAT(
      of_rule(linted(zero({{"stage", 3}, {"offload_param", {{"device", "cpu"}}}})), "offload-without-effect"),
      IsEmpty());
}

TEST(Lint, TheAllGatherBucketHasNoEffect) {
  for (const int stage : {0, 1, 2, 3}) {
    const Finding found =
        only(linted(zero({{"stage", stage}, {"allgather_bucket_size", 500000000}})), "no-effect");
    EXPECT_EQ(found.severity, Severity::warning);
    EXPECT_THAT(found.effect, HasSubstr("all_gather_into_tensor"));
  }
}

TEST(Lint, KeysOfStage3DoNothingAtStage2) {
  for (const char* key : {"stage3_prefetch_bucket_size", "prefetch_bucket_size", "sub_group_size"}) {
    const Json config = zero({{"stage", 2}, {key, 5}});
    EXPECT_EQ(only(linted(config), "no-effect").pointer, "/zero_optimization/" + std::string(key));
    EXPECT_THAT(of_rule(linted(zero({{"stage", 3}, {key, 5}})), "no-effect"), IsEmpty()) << key;
  }
}

TEST(Lint, WhatStage0DoesNotRead) {
  const auto findings = linted(zero({{"stage", 0},
                                     {"reduce_bucket_size", 5},
                                     {"round_robin_gradients", true},
                                     {"offload_optimizer", {{"device", "cpu"}}}}));
  EXPECT_EQ(of_rule(findings, "no-effect").size(), 2U) << lines(findings);
  EXPECT_EQ(of_rule(findings, "offload-without-effect").size(), 1U);
}

TEST(Lint, OnePrecisionAtATime) {
  Json config = with("bf16", {{"enabled", true}});
  config["fp16"] = {{"enabled", true}};
  const Finding found = only(linted(config), "two-precisions");
  EXPECT_EQ(found.outcome, Outcome::raises);
  EXPECT_FALSE(found.fix) << "which one is meant nobody can know";
}

TEST(Lint, TextsForNumbers) {
  EXPECT_EQ(only(linted(zero({{"stage", 2}, {"reduce_bucket_size", "5e8"}})), "wrong-kind").outcome,
            Outcome::raises);
  EXPECT_THAT(linted(zero({{"stage", 2}, {"reduce_bucket_size", 5e8}}), {.gpus = 4}), IsEmpty());
  EXPECT_EQ(only(linted(zero({{"stage", 2}, {"reduce_bucket_size", "500"}})), "loose-value").severity,
            Severity::warning);
  EXPECT_THAT(named(linted(zero({{"stage", 4}}))), Contains("unknown-choice /zero_optimization/stage"));
}

TEST(Lint, AutoIsForTheTrainer) {
  const Json config = {{"train_batch_size", "auto"}, {"train_micro_batch_size_per_gpu", "auto"}};
  EXPECT_THAT(named(linted(config)), ElementsAre("auto-needs-trainer /train_batch_size"));
  EXPECT_EQ(of_rule(linted(config, {.style = ConfigStyle::plain}), "auto-without-trainer").size(), 2U);
  Json more = config;
  more["zero_optimization"] = {{"stage", 3}, {"sub_group_size", "auto"}};
  EXPECT_EQ(only(linted(more), "auto-nobody-fills").pointer, "/zero_optimization/sub_group_size");
}

TEST(Lint, CardsHaveTheirTypes) {
  const Json bf16 = with("bf16", {{"enabled", true}}), fp16 = with("fp16", {{"enabled", true}});
  EXPECT_EQ(only(linted(bf16, {.compute_capability = "7.5"}), "card-emulates-bf16").severity,
            Severity::warning);
  EXPECT_EQ(only(linted(fp16, {.compute_capability = "6.1"}), "card-precision").severity, Severity::error);
  EXPECT_THAT(linted(fp16, {.gpus = 4, .compute_capability = "7.5"}), IsEmpty());
}

TEST(Lint, SecondaryPartitionsDivideTheGpus) {
  const Json config = zero({{"stage", 3}, {"zero_hpz_partition_size", 3}});
  EXPECT_EQ(only(linted(config, {.gpus = 4}), "hpz-partition").outcome, Outcome::raises);
  EXPECT_THAT(of_rule(linted(config), "hpz-partition"), IsEmpty());
}

TEST(Lint, KeysOfOtherSectionsAreSentThere) {
  EXPECT_THAT(only(linted(with("loss_scale", 0)), "misplaced-key").advice, HasSubstr("a key of fp16"));
}

/// DeepSpeed reads the keys that it knows and does not look for others at the top level.
TEST(Lint, KeysOfNothingAreWithoutEffect) {
  for (const char* key : {"comms_config", "monitor_config", "cuda_visible_devices", "my_setting"}) {
    const Finding found = only(linted(with(key, {{"enabled", true}})), "ignored-key");
    EXPECT_EQ(found.severity, Severity::warning) << key;
    EXPECT_FALSE(found.fix) << key;
  }
}

TEST(Lint, CommentsAreNotSettings) {
  for (const char* key :
       {"_comment", "__comment__", "comment", "Comment", "//", "_note", "comments", "_stage"}) {
    const Finding found = only(linted(with(key, "my zero3")), "comment-key");
    EXPECT_EQ(found.severity, Severity::note) << key;
    EXPECT_FALSE(found.fix) << key;
  }
  const Finding inside = only(linted(zero({{"stage", 2}, {"_comment", "x"}})), "unknown-section-key");
  EXPECT_EQ(inside.outcome, Outcome::raises);
  EXPECT_EQ(inside.fix.value().what, "leave it out");
}

/// Before 0.19.3 a file that says nothing of clipping has none, and may do without the norm.
TEST(Lint, ClippingFollowsTheRelease) {
  const std::string
      silent = R"({"train_batch_size": 8})",
      normless = R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "compute_grad_norm": false}})";
  const auto rules = [](const std::string& text, DeepSpeedRelease release) {
    std::vector<std::string> found;
    for (const Finding& each : lint(text, "ds.json", {.release = release})) found.push_back(each.rule);
    return found;
  };
  constexpr DeepSpeedRelease kBefore{0, 19, 2}, kSince{0, 19, 3};
  EXPECT_THAT(rules(silent, kBefore), ::testing::Contains("no-clipping"));
  EXPECT_THAT(rules(silent, kSince), ::testing::Not(::testing::Contains("no-clipping")));
  EXPECT_THAT(rules(normless, kBefore), ::testing::Not(::testing::Contains("stage-refuses")));
  EXPECT_THAT(rules(normless, kSince), ::testing::Contains("stage-refuses"));
}

}  // namespace
}  // namespace zplan::testing
