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

INSTANTIATE_TEST_SUITE_P(
    Fit, Solved,
    testing::Values("fit --solve micro-batch --model 8B --gpus 5 --mem 44",
                    "fit --solve sequence --model 8B --gpus 5 --mem 44 --zero 3",
                    "fit --solve gpus --model 8B --mem 44 --zero 1,2",
                    "fit --solve memory --model 1B --gpus 2 --zero 1,2",
                    "fit --solve host-memory --model 8B --gpus 4 --mem 24 --zero 3",
                    "fit --solve vllm-memory --model 1B --gpus 2 --mem 48 --objective grpo "
                    "--method lora --zero 2 --micro-batch 4",
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

TEST(Fit, TheShortAnswerSaysWhatWouldFitInstead) {
  const std::string line = "fit --solve sequence --model 8B --gpus 1 --gpu RTX-4090-24GB";
  const Result result = in_process(line);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("not even 1 token."));
  EXPECT_THAT(result.out, HasSubstr("It fits with zero0 (--zero 0 --tp 1 --offload none --method lora)."));
  EXPECT_THAT(result.out, HasSubstr("  Next     zplan fit"));
  EXPECT_EQ(in_process(line + " --zero 0 --tp 1 --offload none --method lora").status, 0);
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

TEST(OomReport, PlainPyTorchHasNoStageToName) {
  const std::string line = "--model Qwen/Qwen3-8B --gpus 1 --gpu RTX-3090-24GB --method lora";
  const Result without = with_message(line);
  EXPECT_EQ(without.status, 2);
  EXPECT_THAT(without.err, HasSubstr("--framework torch"));
  EXPECT_THAT(with_message(line + " --framework torch").out, HasSubstr("The plan of ddp"));
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

// ---- what people ask for

/// The share that holds every sequence of a generation lies between the least that starts and the most that
/// fits.
TEST(Asked, AShareForVllm) {
  const std::string line =
      "fit --solve vllm-memory --model Qwen3-4B --gpus 1 --gpu A100-SXM-80GB --objective grpo --method lora "
      "--seq 4096 "
      "--micro-batch 8 --framework torch --zero 0";
  const json question = json::parse(in_process(line + " --json").out).at("questions").at(0);
  const double most = question.at("answer").get<double>() / 100;
  const json shares = question.at("shares");
  ASSERT_FALSE(shares.at("holds_all").is_null());
  EXPECT_LE(shares.at("starts"), shares.at("holds_all"));
  EXPECT_LE(shares.at("holds_all").get<double>(), most);
  EXPECT_THAT(in_process(line).out,
              HasSubstr(fmt::format("{:.2f} holds all 8 sequences of a generation at once; up to "
                                    "{:.2f} fits",
                                    shares.at("holds_all").get<double>(), most)));
  const Result without = in_process("fit --solve vllm-memory --model 8B --gpus 1");
  EXPECT_EQ(without.status, 2);
  EXPECT_THAT(without.err, HasSubstr("--objective grpo"));
}

TEST(Asked, GpusWithinATime) {
  const std::string line =
      "fit --within 14d --tokens 100B --model Qwen3-14B --gpu H100-SXM-80GB --seq 4k --price 2.2/h";
  const Result result = in_process(line + " --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const json deadline = json::parse(result.out).at("deadline");
  const std::int64_t fewest = deadline.at("fewest");
  const json& runs = deadline.at("runs");
  std::int64_t below = 0;
  for (const json& run : runs) {
    const bool in_time = run.at("seconds").get<double>() <= deadline.at("within_seconds").get<double>();
    EXPECT_EQ(in_time, run.at("gpus").get<std::int64_t>() >= fewest) << run.dump();
    if (!in_time) below = run.at("gpus");
    if (in_time && run.at("gpus") == deadline.at("cheapest"))
      for (const json& other : runs) {
        if (other.at("seconds") > deadline.at("within_seconds")) continue;
        EXPECT_LE(run.at("gpu_hours"), other.at("gpu_hours"));
      }
    EXPECT_NEAR(run.at("cost"), run.at("gpu_hours").get<double>() * 2.2, 1);
  }
  EXPECT_EQ(fewest - below, 8);  // whole nodes: the one before is not in time
  // The plan that it names takes as long.
  const json plan = report(next_line(in_process(line).out));
  EXPECT_FALSE(plan.at("recommended").is_null());
  EXPECT_EQ(in_process(line + " --gpus 8").status, 1);
  EXPECT_EQ(in_process("fit --within 14d --model 8B --gpus 8").status, 2);
}

TEST(Asked, ThreeLengthsEachLonger) {
  const json rows =
      json::parse(in_process("fit --solve sequence --model Qwen3-8B --gpus 2 --mem 48 --json").out)
          .at("questions")
          .at(0)
          .at("lengths");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_LE(rows[0].at("value"), rows[1].at("value"));
  EXPECT_LE(rows[1].at("value"), rows[2].at("value"));
  EXPECT_THAT(rows[1].at("options").get<std::string>(), HasSubstr("--fused-loss"));
  const std::string screen = in_process("fit --solve sequence --model Qwen3-8B --gpus 2 --mem 48").out;
  EXPECT_THAT(screen, HasSubstr("How long, by what you are ready to change"));
  EXPECT_LE(std::count(screen.begin(), screen.end(), '\n'), 30);
}

/// A part of a node has its share of the host; whole nodes are filled.
TEST(Asked, GpusComeInNodes) {
  const json all = report("--model 8B --gpus 128 --gpu H100-SXM-80GB").at("cluster");
  EXPECT_EQ(all.at("nodes"), 16);
  EXPECT_EQ(all.at("gpus_per_node"), 8);
  EXPECT_EQ(report("--model 8B --gpus 12 --gpu H100-SXM-80GB").at("cluster").at("nodes"), 1);
  EXPECT_EQ(report("--model 8B --gpus 128 --nodes 1 --gpu H100-SXM-80GB").at("cluster").at("nodes"), 1);
  const std::string next = next_line(
      in_detail("fit --solve gpus --model Qwen3-32B --gpu A100-SXM-80GB --zero 3 --offload all").out);
  const json cluster = report(next).at("cluster");
  EXPECT_EQ(cluster.at("host_memory_bytes_per_node").get<std::int64_t>(),
            cluster.at("gpus").get<std::int64_t>() * (std::int64_t{128} << 30))
      << next;
}

}  // namespace
}  // namespace zplan::test
