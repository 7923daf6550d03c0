// The advice of `plan` and `search`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTask = "--model Qwen/Qwen3-14B --gpus 4 --gpu A100-SXM-80GB --seq 8192";

TEST(AdviceText, NamesTheArgumentUnderTheVerdict) {
  const Result run = in_process(kTask);
  EXPECT_EQ(run.status, 0);
  const std::size_t faster = run.out.find("Faster: zero3");
  ASSERT_NE(faster, std::string::npos);
  EXPECT_LE(std::count(run.out.begin(), run.out.begin() + static_cast<std::ptrdiff_t>(faster), '\n'), 4);
  EXPECT_THAT(run.out, HasSubstr("use_liger_kernel=True"));
  EXPECT_LE(std::count(run.out.begin(), run.out.end(), '\n'), 30);
}

TEST(AdviceText, IsSilentWhereNothingIsWorthAChange) {
  const json first = advised_report(kTask);
  const std::string best = first["advice"]["best"]["command"];
  const json pinned = advised_report(best.substr(std::string("zplan ").size()));
  EXPECT_FALSE(pinned["advice"]["improves"]);
  EXPECT_THAT(in_process(best.substr(std::string("zplan ").size())).out, Not(HasSubstr("Faster:")));
}

/// Returns the line of a text in which `words` begin, from 1; 0 where they are not there.
std::ptrdiff_t line_of(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  if (at == std::string::npos) return 0;
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
}

TEST(AdviceText, TheRunsTimeAndCostStandBelowTheVerdict) {
  const std::string task = "--model 8B --gpus 8 --gpu H100-SXM-80GB --micro-batch 4 --price 2.5 ";
  for (const char* line : {"--samples 50000", "--tokens 1B"})
    for (const char* command : {"", "search "}) {
      const Result run = in_process(command + task + line);
      const std::ptrdiff_t at = line_of(run.out, "The run: ");
      EXPECT_GT(at, 0) << command << line;
      EXPECT_LE(at, 7) << command << line;
      EXPECT_THAT(run.out, HasSubstr(" GPU-hours, ")) << command << line;
      EXPECT_LE(std::count(run.out.begin(), run.out.end(), '\n'), 30) << command << line;
    }
  EXPECT_THAT(in_process(task + "--tokens 1B").out, HasSubstr("faster: 3.4 h, 68.62 in money"));
  EXPECT_THAT(in_process("--model 8B --gpus 8 --gpu H100-SXM-80GB").out, Not(HasSubstr("The run: ")));
}

TEST(AdviceText, UnderFsdpTheConfigSaysWhoCheckpoints) {
  const Result run =
      in_process("--model Qwen/Qwen2.5-32B-Instruct --method lora --gpus 2 --gpu RTX-4090-24GB");
  EXPECT_EQ(run.status, 0);
  std::string joined = run.out;
  std::replace(joined.begin(), joined.end(), '\n', ' ');
  EXPECT_THAT(joined, HasSubstr("gradient_checkpointing=False,"));
  EXPECT_THAT(joined, HasSubstr("fsdp_activation_checkpointing: true"));
}

TEST(AdviceJson, QloraIsOfferedWhereAdaptersDoNotFit) {
  const std::string line =
      "--model Qwen/Qwen2.5-32B-Instruct --method lora --gpus 2 --gpu RTX-4090-24GB --host-mem 64";
  EXPECT_THAT(in_process(line).out, HasSubstr("  Next     zplan --model Qwen/Qwen2.5-32B-Instruct "));
  const json advice = advised_report(line)["advice"];
  EXPECT_TRUE(advice["best"].is_null());
  ASSERT_FALSE(advice["offers"].empty());
  const json offer = advice["offers"].back();
  EXPECT_THAT(offer["command"].get<std::string>(), HasSubstr("--method qlora"));
  EXPECT_THAT(offer["command"].get<std::string>(), HasSubstr("--quant-storage bf16"));
  const std::string command = offer["command"];
  const json pinned = advised_report(command.substr(std::string("zplan ").size()));
  EXPECT_EQ(pinned["recommended"], offer["plan"]["id"]);
  // All weights that were asked for by name stay.
  const json full = advised_report("--model 70B --method full --gpus 2 --gpu RTX-4090-24GB");
  for (const json& each : full["advice"]["offers"])
    EXPECT_THAT(each["command"].get<std::string>(), Not(HasSubstr("lora")));
}

TEST(AdviceJson, ItsCommandPlansWhatItSays) {
  const json best = advised_report(kTask)["advice"]["best"];
  const std::string command = best["command"];
  const json pinned = advised_report(command.substr(std::string("zplan ").size()));
  EXPECT_EQ(pinned["recommended"], best["plan"]["id"]);
  EXPECT_EQ(pinned["plans"][0]["memory"]["required"], best["required"]);
  EXPECT_NEAR(pinned["plans"][0]["time"]["step"].get<double>(), best["plan"]["step"].get<double>(), 1e-9);
}

TEST(AdviceJson, PlanAndSearchAdviseTheSame) {
  for (const std::string line :
       {"--model 8B --gpus 5 --mem 44 --micro-batch 1",
        "--model 8B --gpus 2 --gpu H100-SXM-80GB --global-batch 16",
        "--model Qwen/Qwen3-4B --gpus 4 --gpu RTX-4090-24GB --micro-batch 2 --method lora",
        "--model Qwen/Qwen3-0.6B --gpus 1 --gpu T4-16GB --micro-batch 1"}) {
    const json plan = advised_report(line)["advice"], search = advised_report("search " + line)["advice"];
    for (const char* which : {"best", "safer"}) {
      json a = plan[which], b = search[which];
      for (json* each : {&a, &b})
        if (each->is_object()) each->erase("script");  // says what changes beside what the command recommends
      EXPECT_EQ(a, b) << line << " " << which;
    }
  }
}

}  // namespace
}  // namespace zplan::test
