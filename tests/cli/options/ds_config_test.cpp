// --ds-config: the file pins, options fill what it leaves open and may not contradict it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

std::string config(const Folder& folder, const std::string& text) {
  return "--model 8B --gpus 8 --mem 80 --ds-config " + folder.write("ds.json", text);
}

constexpr const char* kStage2 = R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
  "bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
  "zero_optimization": {"stage": 2, "reduce_bucket_size": 123456789, "offload_optimizer": {"device": "cpu"}}})";

TEST(DsConfig, IsPlannedExactly) {
  const Folder folder;
  const json r = report(config(folder, kStage2));
  ASSERT_EQ(r.at("plans").size(), 1U);
  const json& s = r.at("plans").at(0).at("strategy");
  EXPECT_EQ(s.at("zero_stage"), 2);
  EXPECT_EQ(s.at("offload_optimizer"), "cpu");
  EXPECT_EQ(s.at("micro_batch_size"), 2);
  EXPECT_EQ(s.at("gradient_accumulation_steps"), 4);
  EXPECT_EQ(s.at("global_batch_size"), 64);
  EXPECT_EQ(s.at("reduce_bucket_elements"), 123456789);
}

TEST(DsConfig, OptionsFillWhatItLeavesOpen) {
  const Folder folder;
  const json r =
      report(config(folder, R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}})") +
             " --grad-accum 3 --tp 1 --seq 512");
  const json& plan = r.at("plans").at(0);
  EXPECT_EQ(plan.at("id"), "zero3");
  EXPECT_EQ(plan.at("strategy").at("gradient_accumulation_steps"), 3);
  EXPECT_EQ(r.at("training").at("sequence_length"), 512);
}

TEST(DsConfig, ContradictionsNameBothPlaces) {
  const Folder folder;
  const std::vector<std::pair<std::string, std::string>> cases{{"--zero 3", "--zero"},
                                                               {"--offload none", "--offload"},
                                                               {"--micro-batch 1", "--micro-batch"},
                                                               {"--micro-batch max", "--micro-batch"},
                                                               {"--grad-accum 8", "--grad-accum"},
                                                               {"--global-batch 32", "--global-batch"},
                                                               {"--precision fp16", "--precision"},
                                                               {"--optimizer lion", "--optimizer"},
                                                               {"--buckets default", "--buckets"}};
  for (const auto& [options, name] : cases) {
    const Result result = as_process(split(config(folder, kStage2) + " " + options));
    EXPECT_EQ(result.status, kBadInput) << options;
    EXPECT_EQ(result.out, "") << options;
    EXPECT_THAT(result.err, HasSubstr(name)) << options;
    // With the global batch it is the product that does not agree, not one place.
    if (name != "--global-batch") {
      EXPECT_THAT(result.err, HasSubstr(name == "--buckets" ? "--ds-config" : "ds.json")) << options;
    }
  }
}

TEST(DsConfig, WhatCannotBeReadIsSentToTheChecks) {
  const Folder folder;
  for (const char* text :
       {R"({"zero_optimization": {"stage": 2},})",
        R"({"zero_optimization": {"stage": 3, "stage3_param_persistance_threshold": 1}})"}) {
    const Result result = in_process(config(folder, text));
    EXPECT_EQ(result.status, kBadInput) << text;
    EXPECT_THAT(result.err, HasSubstr("; zplan lint " + folder.path("ds.json") + " checks the whole file"))
        << text;
  }
}

TEST(DsConfig, ConfigsOfOtherProgramsAreNoDsConfig) {
  const Folder folder;
  for (const char* text : {R"({"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2}})",
                           R"({"per_device_train_batch_size": 1, "output_dir": "out"})"}) {
    const Result result = in_process(config(folder, text));
    EXPECT_EQ(result.status, kBadInput) << text;
    EXPECT_THAT(result.err, HasSubstr("--recipe " + folder.path("ds.json"))) << text;
  }
  const std::string emitted = folder.path("fsdp.json");
  const std::string line = "--model 8B --gpus 8 --gpu H100-SXM-80GB ";
  ASSERT_EQ(in_process(line + "--framework fsdp --emit " + emitted).status, kFits);
  EXPECT_EQ(in_process(line + "--ds-config " + emitted).status, kBadInput);
}

TEST(DsConfig, AgreeingOptionsAreNoContradiction) {
  const Folder folder;
  EXPECT_NE(in_process(config(folder, kStage2) +
                       " --zero 1,2 --offload optimizer --micro-batch 2 --precision bf16 --global-batch 64")
                .status,
            kBadInput);
}

TEST(DsConfig, AMisspelledKeyIsAnError) {
  const Folder folder;
  const std::string line = config(
      folder,
      R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "zero_optimisation": {}})");
  const Result result = in_process(line);
  EXPECT_EQ(result.status, kBadInput);
  EXPECT_THAT(result.err, HasSubstr("zero_optimization"));
}

}  // namespace
}  // namespace zplan::test
