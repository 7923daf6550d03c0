// `zplan hardware compare` and `--instance`: one question on GPUs and cloud shapes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;
using testing::Not;

json compared(const std::string& line) {
  const Result result = in_process("hardware compare " + line + " --json");
  EXPECT_EQ(result.status, kFits) << result.err;
  return json::parse(result.out);
}

TEST(HardwareCompare, AsksEachWhatPlanAsks) {
  const json all = compared("H100-SXM-80GB p4d.24xlarge --model 8B --gpus 8 --zero 3 --offload none");
  ASSERT_EQ(all.at("hardware").size(), 2U);
  const json &h100 = all.at("hardware")[0], &p4d = all.at("hardware")[1];
  EXPECT_EQ(h100.at("kind"), "gpu");
  EXPECT_EQ(p4d.at("kind"), "instance");
  const Result alone =
      in_process("--model 8B --gpus 8 --zero 3 --offload none --instance p4d.24xlarge --json");
  EXPECT_EQ(p4d.at("report").at("plans"), json::parse(alone.out).at("plans"));
  EXPECT_NEAR(h100.at("tokens_per_gpu_hour").get<double>(),
              h100.at("tokens_per_second").get<double>() * 3600 / 8, 1e-6);
  EXPECT_GT(h100.at("tokens_per_second"), p4d.at("tokens_per_second"));
}

TEST(HardwareCompare, NodesAreOfEachShape) {
  const json all = compared("g5.12xlarge p5.48xlarge --model 0.5B --nodes 2 --zero 2 --offload none --tp 1");
  EXPECT_EQ(all.at("hardware")[0].at("report").at("cluster").at("gpus"), 8);
  EXPECT_EQ(all.at("hardware")[1].at("report").at("cluster").at("gpus"), 16);
}

TEST(HardwareCompare, TextMarkdownAndCsvNameEach) {
  const std::string asked = "hardware compare h100 mi300x --model 8B --gpus 8 --zero 3 --offload none --tp 1";
  for (const std::string format : {"", " --markdown", " --csv"}) {
    const Result result = in_process(asked + format);
    EXPECT_EQ(result.status, kFits) << result.err;
    EXPECT_THAT(result.out, HasSubstr("H100-SXM-80GB"));
    EXPECT_THAT(result.out, HasSubstr("MI300X-192GB"));
  }
  EXPECT_THAT(in_process(asked).out, HasSubstr("tokens per GPU-hour"));
  EXPECT_THAT(in_process(asked).out, HasSubstr("no published training run was compared on ROCm"));
  EXPECT_THAT(in_process(asked).out,
              HasSubstr("zplan --model 8B --gpus 8 --zero 3 --offload none --tp 1 --gpu MI300X-192GB"));
}

TEST(HardwareCompare, WhatCannotBeAskedOfOneIsSaidOfIt) {
  const json all = compared("h100 910b --model 8B --method qlora --gpus 1");
  EXPECT_TRUE(all.at("hardware")[0].at("fits"));
  EXPECT_FALSE(all.at("hardware")[1].at("fits"));
  EXPECT_THAT(all.at("hardware")[1].at("impossible").get<std::string>(), HasSubstr("bitsandbytes"));
  EXPECT_EQ(in_process("hardware compare 910b 910c --model 8B --method qlora").status, kBadInput);
}

TEST(HardwareCompare, NothingFitsIsStatusOne) {
  EXPECT_EQ(in_process("hardware compare RTX-2060-12GB RTX-3060-12GB --model 70B --gpus 1").status,
            kNothingFits);
}

std::vector<std::string> names_of(const json& all) {
  std::vector<std::string> names;
  for (const json& each : all.at("hardware")) names.push_back(each.at("name"));
  return names;
}

/// Eight H100 are faster than four L40S, and are charged more than they are faster.
TEST(HardwareCompare, FastestAndCheapestAreOrders) {
  const std::string asked =
      "p4d.24xlarge p5.48xlarge g6e.12xlarge --model Qwen/Qwen3-8B --method lora --price 4.1,12.3,2.62 ";
  using testing::ElementsAre;
  EXPECT_THAT(names_of(compared(asked)), ElementsAre("p4d.24xlarge", "p5.48xlarge", "g6e.12xlarge"));
  EXPECT_THAT(names_of(compared(asked + "--order fastest")),
              ElementsAre("p5.48xlarge", "p4d.24xlarge", "g6e.12xlarge"));
  const json cheapest = compared(asked + "--order cheapest");
  EXPECT_THAT(names_of(cheapest), ElementsAre("g6e.12xlarge", "p4d.24xlarge", "p5.48xlarge"));
  EXPECT_EQ(cheapest.at("order"), "cheapest");
  EXPECT_THAT(in_process("hardware compare " + asked).out, HasSubstr("g6e.12xlarge is the cheapest: "));
}

TEST(HardwareCompare, APriceIsOfEachOrOfAll) {
  const std::string asked = "h100 a100 --model 8B --gpus 8 --zero 3 --offload none --tp 1 ";
  const auto prices = [](const json& all) {
    return std::vector<double>{all.at("hardware")[0].at("price_per_gpu_hour"),
                               all.at("hardware")[1].at("price_per_gpu_hour")};
  };
  EXPECT_EQ(prices(compared(asked + "--price 3,1.5")), (std::vector<double>{3, 1.5}));
  const json all = compared(asked + "--price 2 --tokens 1000000000");
  EXPECT_EQ(prices(all), (std::vector<double>{2, 2}));
  for (const json& each : all.at("hardware")) {
    const double gpu_hours = 1e6 / each.at("tokens_per_second").get<double>() / 3600 * 8;
    EXPECT_NEAR(each.at("cost_per_million_tokens").get<double>(), gpu_hours * 2, 1e-9);
    // A batch that is not full is a step.
    EXPECT_NEAR(each.at("report").at("plans")[0].at("run").at("cost").get<double>(), gpu_hours * 2 * 1000,
                0.1);
  }
  EXPECT_TRUE(compared(asked).at("hardware")[0].at("cost_per_million_tokens").is_null());
}

TEST(HardwareCompare, WhatDoesNotFitIsBehindWhatDoes) {
  const json all = compared(
      "910b rtx-3060 l40s --model 8B --method qlora --gpus 1 --zero 0 --seq 4096 --price 1 --order cheapest");
  EXPECT_EQ(names_of(all).front(), "L40S-48GB");
  EXPECT_EQ(names_of(all).back(), "Ascend-910B-64GB");
}

TEST(HardwareCompare, BadNamesAreRefusedWithTheNearest) {
  const std::vector<std::pair<std::string, std::string>> bad{
      {"hardware compare --model 8B", "no names"},
      {"hardware compare h100 --model 8B", "one name"},
      {"hardware compare h100 h1000-sxm --model 8B", "did you mean"},
      {"hardware compare h100 p5.48xlrage --model 8B", "did you mean p5.48xlarge?"},
      {"hardware compare h100 H100-SXM-80GB --model 8B", "twice"},
      {"hardware compare h100 a100", "--model: missing"},
      {"hardware compare h100 a100 --model 8B --gpu l4", "--gpu: not an option of hardware compare"},
      {"hardware compare h100 a100 --model 8B --price 1,2,3", "--price: 3 prices for 2 names"},
      {"hardware compare h100 a100 --model 8B --price 1,", "--price: \"1,\""},
      {"hardware compare h100 a100 --model 8B --price 1,x", "--price: \"x\""},
      {"hardware compare h100 a100 --model 8B --price -1", "--price: \"-1\""},
      {"hardware compare h100 a100 --model 8B --order cheapest", "--order: cheapest without --price"},
      {"hardware compare h100 a100 --model 8B --order dearest", "--order: \"dearest\""},
      {"--model 8B --tokens 5 --price 1,2", "--price: 2 prices for one kind of GPU"},
      {"--model 8B --order fastest", "--order: not an option of plan"},
      {"compare zero2 zero3 --model 8B --gpus 8 --order fastest", "--order: does nothing between strategies"},
      {"hardware compare h100 a100 --model 8B --emit x.json", "--emit: not an option of hardware compare"},
      {"--model 8B --instance p9.huge", "--instance: \"p9.huge\""},
      {"--model 8B --instance p5.48xlarge --gpus 12", "--gpus: 12, but p5.48xlarge holds 8"}};
  for (const auto& [line, said] : bad) {
    const Result result = in_process(line);
    EXPECT_EQ(result.status, kBadInput) << line;
    EXPECT_THAT(result.err, HasSubstr(said)) << line;
  }
}

TEST(CloudShapes, AreListedShownAndFound) {
  EXPECT_THAT(in_process("hardware instances").out, HasSubstr("a3-megagpu-8g"));
  EXPECT_THAT(in_process("hardware list").out, Not(HasSubstr("a3-megagpu-8g")));
  EXPECT_THAT(in_process("hardware instances b200").out, HasSubstr("p6-b200.48xlarge"));
  EXPECT_THAT(in_process("hardware show p5.48xlarge").out, HasSubstr("https://docs.aws.amazon.com"));
  EXPECT_GE(json::parse(in_process("hardware --json").out).at("instances").size(), 150U);
}

TEST(CloudShapes, ReachTheReport) {
  const Result result =
      in_detail("--model 8B --instance p5.48xlarge --nodes 2 --zero 3 --offload none --tp 1");
  EXPECT_THAT(result.out, HasSubstr("p5.48xlarge of AWS: 192 vCPUs"));
  const json report = json::parse(
      in_detail("--model 8B --instance p5.48xlarge --nodes 2 --zero 3 --offload none --tp 1 --json").out);
  EXPECT_EQ(report.at("cluster").at("instance").at("name"), "p5.48xlarge");
  EXPECT_EQ(report.at("cluster").at("network"), "efa-32x100g");
  EXPECT_EQ(report.at("cluster").at("gpus"), 16);
}

TEST(CloudShapes, WithoutADiskNothingGoesToIt) {
  const Result result =
      in_process("--model 8B --instance p3.16xlarge --precision fp16 --zero 3 --offload all-nvme");
  EXPECT_EQ(result.status, kBadInput);
  EXPECT_THAT(result.err, HasSubstr("p3.16xlarge has no disk of its own to offload to"));
}

/// One pool: what the host takes is the GPU's too.
TEST(UnifiedMemory, OffloadIsRefusedAndTheHostsPartIsCounted) {
  const Result pinned = in_process("--model 1.7B --gpu dgx-spark --zero 2 --offload optimizer");
  EXPECT_EQ(pinned.status, kBadInput);
  EXPECT_THAT(pinned.err, HasSubstr("share one memory: offload from one to the other frees nothing"));
  const json open = json::parse(in_process("--model 1.7B --gpu dgx-spark --json").out);
  for (const json& plan : open.at("plans"))
    EXPECT_EQ(plan.at("strategy").at("offload_optimizer"), "none") << plan.at("id");
  EXPECT_EQ(open.at("cluster").at("host_memory_bytes_per_node"), open.at("cluster").at("memory_bytes"));
  const json apart =
      json::parse(in_process("--model 1.7B --gpu gh200 --zero 2 --offload optimizer --json").out);
  EXPECT_TRUE(plan_of(apart, "zero2+offload-optimizer").at("fits"));
}

TEST(OtherVendors, WhatHasNoKernelsIsRefused) {
  const Result optimizer = in_process("--model 8B --gpu gaudi3 --gpus 8 --optimizer adamw8bit");
  EXPECT_EQ(optimizer.status, kBadInput);
  EXPECT_THAT(optimizer.err, HasSubstr("--optimizer: bitsandbytes has no optimizer adamw8bit for Gaudi"));
  EXPECT_EQ(in_process("--model 8B --gpu mi300x --method qlora --gpus 1 --zero 0").status, kFits);
  const json report = json::parse(in_process("--model 8B --gpu mi300x --gpus 8 --zero 3 --tp 1 --json").out);
  EXPECT_EQ(report.at("training").at("attention"), "flash");
  EXPECT_EQ(report.at("cluster").at("node"), "mesh");
}

}  // namespace
}  // namespace zplan::test
