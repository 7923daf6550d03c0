// The largest micro-batch and the longest sample under Unsloth, and under TRL without it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

const std::string kRun = " --model Qwen/Qwen3-4B --method qlora --gpus 1 --gpu RTX-4090-24GB";

std::int64_t largest(const std::string& solve, const std::string& trainer) {
  return report("fit --solve " + solve + kRun + trainer)
      .at("questions")
      .at(0)
      .at("answer")
      .get<std::int64_t>();
}

TEST(TrainerReach, IsWhatTheInverseQuestionsAnswer) {
  const json reach = report(kRun.substr(1) + " --trainer unsloth").at("reach");
  ASSERT_EQ(reach.size(), 2U);
  const std::string without = " --trainer trl --framework torch --optimizer adamw8bit";
  for (const auto& [row, trainer] :
       {std::pair{reach.at(0), std::string(" --trainer unsloth")}, {reach.at(1), without}}) {
    EXPECT_EQ(row.at("largest_micro_batch"), largest("micro-batch", trainer));
    // People set lengths in multiples of 128 tokens.
    EXPECT_EQ(row.at("longest_sequence"), largest("sequence", trainer) / 128 * 128);
    const json plan = report(kRun.substr(1) + trainer).at("plans").at(0);
    EXPECT_EQ(row.at("required_bytes"), plan.at("memory").at("required"));
    EXPECT_EQ(row.at("step_seconds"), plan.at("time").at("step"));
  }
  EXPECT_GT(reach.at(0).at("largest_micro_batch"), reach.at(1).at("largest_micro_batch"));
}

/// The page asks with --emit, which the other trainer would refuse.
TEST(TrainerReach, IsThereBesideAConfig) {
  const Folder folder;
  const json answer = report(kRun.substr(1) + " --trainer unsloth --emit " + folder.path("ds_config.json"));
  EXPECT_EQ(answer.at("reach").size(), 2U);
}

TEST(TrainerReach, IsInTheAnswerOnOneScreen) {
  const std::string text = in_process(kRun.substr(1) + " --trainer unsloth").out;
  EXPECT_THAT(text, HasSubstr("  Room     up to "));
  EXPECT_THAT(text, HasSubstr("trl 1.16 instead: "));
  EXPECT_THAT(in_process(kRun.substr(1) + " --trainer unsloth --verbose").out, HasSubstr("Room"));
}

TEST(TrainerReach, IsOfTrainersThatStandBesideAnother) {
  EXPECT_FALSE(report(kRun.substr(1) + " --trainer trl").contains("reach"));
  EXPECT_FALSE(report(kRun.substr(1)).contains("reach"));
}

}  // namespace
}  // namespace zplan::test
