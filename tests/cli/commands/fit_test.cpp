// `zplan fit` as it is typed: answers that the plan itself confirms, exit status, bad input.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

const char* const kMessage =
    "CUDA out of memory. Tried to allocate 9.27 GiB (GPU 3; 44.35 GiB total capacity; 41.10 GiB already "
    "allocated; 1.38 GiB "
    "free; 41.60 GiB reserved in total by PyTorch)";

Result with_message(const std::string& line, const std::string& message = kMessage) {
  std::vector<std::string> words{"fit", "--oom", message};
  for (const std::string& each : split(line)) words.push_back(each);
  return in_process(words);
}

/// The line that many below "Next", as words without the program's name.
std::string next_line(const std::string& text, int below = 1) {
  std::istringstream lines(text);
  std::string line;
  while (line != "Next" && std::getline(lines, line)) continue;
  for (int i = 0; i < below; ++i) std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("  zplan ")) << line;
  return line.erase(0, 8);
}

class Solved : public testing::TestWithParam<std::string> {};

/// The value that fit finds fits, according to the plan command that it prints.
TEST_P(Solved, ThePlanThatItNamesFits) {
  const Result result = in_detail(GetParam());
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string next = next_line(result.out);
  EXPECT_EQ(next.find("fit"), std::string::npos) << next;
  const json plan = report(next);
  EXPECT_FALSE(plan.at("recommended").is_null()) << next;
  const json fit = json::parse(in_detail(GetParam() + " --json").out);
  EXPECT_EQ(fit.at("schema"), "zplan.fit/1");
  EXPECT_EQ(fit.at("questions").at(0).at("strategy"), plan.at("recommended")) << next;
}

INSTANTIATE_TEST_SUITE_P(Fit, Solved,
                         testing::Values("fit --solve micro-batch --model 8B --gpus 5 --mem 44",
                                         "fit --solve sequence --model 8B --gpus 5 --mem 44 --zero 3",
                                         "fit --solve gpus --model 8B --mem 44 --zero 1,2",
                                         "fit --solve memory --model 1B --gpus 2 --zero 1,2",
                                         "fit --solve host-memory --model 8B --gpus 4 --mem 24 --zero 3",
                                         "fit --solve model --gpus 2 --mem 24 --zero 2 --offload none"));

/// The top of the ladder is a plan that fits, too, and longer than what was found without its means.
TEST(Fit, TheLongestOfTheLadderIsNamedAndFits) {
  const std::string line = "fit --solve sequence --model 1B --gpus 4 --mem 24";
  const Result result = in_detail(line);
  ASSERT_EQ(result.status, 0) << result.err;
  const json plan = report(next_line(result.out, 2));
  EXPECT_FALSE(plan.at("recommended").is_null()) << next_line(result.out, 2);
  const json fit = json::parse(in_detail(line + " --json").out).at("questions").at(0);
  EXPECT_EQ(plan.at("training").at("sequence_length"), fit.at("ladder").back().at("value"));
  EXPECT_GT(fit.at("ladder").back().at("value"), fit.at("answer"));
}

TEST(Fit, WithoutASolveAllThatIsOpenIsAnswered) {
  const auto asked = [](const std::string& line) {
    std::vector<std::string> names;
    const json fit = json::parse(in_process(line + " --json").out);
    for (const json& each : fit.at("questions")) names.push_back(each.at("solve"));
    return names;
  };
  EXPECT_THAT(asked("fit --model 1B --gpus 2 --mem 24"),
              testing::ElementsAre("micro-batch", "sequence", "host-memory"));
  EXPECT_THAT(asked("fit --model 1B --micro-batch 2 --offload none"),
              testing::ElementsAre("sequence", "gpus", "memory"));
  EXPECT_THAT(asked("fit --gpus 2 --mem 16 --zero 2 --offload none"), testing::ElementsAre("model"));
}

TEST(Fit, NothingFitsIsStatusOneAndSaysWhatWould) {
  const Result result = in_detail("fit --solve micro-batch --model 8B --gpus 1 --mem 24 --zero 0");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("Not even micro-batch 1"));
  EXPECT_THAT(result.out, HasSubstr("What fits instead"));
}

TEST(Fit, ABatchThatIsFixedIsNoBadInputWhereItDoesNotFit) {
  const Result result = in_detail(
      "fit --solve micro-batch --model 8B --gpus 4 --mem 16 --zero 0 --tp 1 --global-batch 8 --grad-accum 1");
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Not even micro-batch 2"));
}

TEST(Fit, FormatsForProgramsHoldTheSameFigures) {
  const std::string line =
      "fit --solve micro-batch --model 1B --gpus 2 --mem 24 --zero 2 --tp 1 --offload none";
  const json fit = json::parse(in_process(line + " --json").out);
  const json& solution = fit.at("questions").at(0).at("solutions").at(0);
  const std::string csv = in_process(line + " --csv").out;
  EXPECT_THAT(csv, HasSubstr(fmt::format("micro-batch,zero2,{},", solution.at("value").get<int>())));
  EXPECT_THAT(csv, HasSubstr(fmt::format(",{},", solution.at("required").get<std::int64_t>())));
  EXPECT_THAT(in_process(line + " --markdown").out, HasSubstr("| zero2 |"));
}

TEST(Fit, WhatIsAskedForCannotBeGiven) {
  for (const char* line :
       {"fit --solve micro-batch --model 8B --micro-batch 2", "fit --solve sequence --model 8B --seq 2048",
        "fit --solve memory --model 8B --mem 24", "fit --solve model --model 8B",
        "fit --solve host-memory --model 8B --host-mem 64",
        "fit --solve micro-batch --model 8B --micro-batch max", "fit --model 8B --emit x.json", "fit 8B",
        "fit --solve colour --model 8B", "--model 8B --solve gpus", "fit --solve gpus",
        "fit --solve host-memory --model 1B --gpus 2 --mem 24 --offload none",
        "fit --solve micro-batch --model 1B --gpus 2 --oom x"}) {
    const Result result = in_process(line);
    EXPECT_EQ(result.status, 2) << line;
    EXPECT_EQ(result.out, "") << line;
    EXPECT_THAT(result.err, HasSubstr("--")) << line;
  }
}

TEST(OomReport, WithoutAModelItExplainsTheMessage) {
  const Result result = with_message("");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("GPU 3"));
  EXPECT_THAT(result.out, HasSubstr("What helps"));
}

TEST(OomReport, WithTheRunItSaysWhereAndWhatHelps) {
  const Result result =
      with_message("--model Qwen/Qwen3-8B --gpus 5 --mem 44 --zero 2 --seq 4096 --micro-batch 4");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("9.27 GiB matches, within PyTorch's rounding: cross-entropy"));
  const json plan = report(next_line(result.out));
  EXPECT_FALSE(plan.at("recommended").is_null());
}

TEST(OomReport, WithoutACardTheMessagesIsPlanned) {
  const Result result = with_message("--model 8B --gpus 5 --zero 2 --seq 4096 --micro-batch 4 --json");
  const json oom = json::parse(result.out).at("oom");
  // 44.35 GiB as the process sees it, less a tenth.
  EXPECT_NEAR(oom.at("plan").at("available").get<double>() / (1 << 30), 44.35 * 0.9, 0.01);
}

TEST(OomReport, NoChangeThatHelpsIsStatusOne) {
  const Result result = with_message(
      "--model 405B --gpus 1 --mem 24 --host-mem 32 --zero 0",
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.50 GiB");
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_THAT(result.out, HasSubstr("None of these makes it fit"));
}

TEST(OomReport, AFileOfSeveralRanksIsRead) {
  const Folder folder;
  const std::string path = folder.write(
      "train.log", std::string("epoch 1\n[rank3]: ") + kMessage + "\n[rank4]: " + kMessage + "\n");
  const Result result = with_message("", path);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("2 messages in all"));
  EXPECT_THAT(result.out, HasSubstr("line 3"));
}

TEST(OomReport, WhatIsNoMessageIsBadInput) {
  const Folder folder;
  const std::string empty = folder.write("empty.log", "all went well\n");
  for (const Result& result :
       {with_message("", "no such thing"), with_message("", empty), with_message("--gpus 4"),
        with_message("--model 8B --gpus 5 --mem 44"), with_message("--model 8B --gpus 5 --mem 44 --zero 2,3"),
        with_message("--model 8B --gpus 5 --mem 44 --zero 1 --offload all"), with_message("--csv")}) {
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("--"));
  }
}

}  // namespace
}  // namespace zplan::test
