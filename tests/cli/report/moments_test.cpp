// Moments of a run besides its steps: which of them is short and what helps; duration and cost of the run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kParameters = 8'030'261'248;  // of Llama 3 8B, named_parameters()

const json& moment(const json& plan, const std::string& name) {
  for (const json& each : plan.at("moments"))
    if (each.at("moment") == name) return each;
  throw std::runtime_error("no moment " + name);
}

std::int64_t host_of(const json& plan, const std::string& name) {
  return moment(plan, name).at("host_per_node").get<std::int64_t>();
}

json first_plan(const std::string& line) { return report(line).at("plans").at(0); }

std::string why_of(const json& plan) {
  std::string all;
  for (const json& each : plan.at("why")) all += each.get<std::string>() + "\n";
  return all;
}

// The first of four nodes gathers the whole model in 16 bits; the checkpoint's states are spread over all nodes.
TEST(Moments, StepsFitAndTheSaveDoesNot) {
  const std::string line =
      "--model meta-llama/Meta-Llama-3-8B --gpus 32 --nodes 4 --gpu H100-SXM-80GB --zero 3 --tp 1 --offload "
      "none "
      "--host-mem 16";
  const json plan = first_plan(line);
  EXPECT_EQ(plan.at("short_moment"), "save_model");
  EXPECT_TRUE(plan.at("fits_device").get<bool>());
  EXPECT_FALSE(plan.at("fits").get<bool>());
  EXPECT_EQ(host_of(plan, "save_model"), 2 * kParameters);
  EXPECT_THAT(why_of(plan), HasSubstr("saving the model needs 15.0 GiB of host memory per node"));
  EXPECT_THAT(why_of(plan), HasSubstr("stage3_gather_16bit_weights_on_model_save: false"));
  const json sharded = first_plan(line + " --save sharded");
  EXPECT_TRUE(sharded.at("fits").get<bool>());
  EXPECT_EQ(host_of(sharded, "save_model"), 0);
  EXPECT_EQ(sharded.at("short_moment"), nullptr);
}

// accelerate widens weights on every rank before it shards them; 16-bit weights stay mapped.
TEST(Moments, StepsFitAndLoadingDoesNot) {
  const std::string line =
      "--model meta-llama/Meta-Llama-3-8B --gpus 8 --gpu H100-SXM-80GB --framework fsdp --zero 3 --offload "
      "none "
      "--host-mem 200";
  const json plan = first_plan(line);
  EXPECT_EQ(plan.at("short_moment"), "load");
  EXPECT_EQ(host_of(plan, "load"), 8 * 4 * kParameters);
  EXPECT_THAT(why_of(plan), HasSubstr("loading the model needs"));
  EXPECT_THAT(why_of(plan), HasSubstr("--no-master-weights"));
  const json narrow = first_plan(line + " --no-master-weights");
  EXPECT_TRUE(narrow.at("fits").get<bool>());
  EXPECT_EQ(host_of(narrow, "load"), 0);
}

// zero.Init hands out what rank 0 maps; without it every rank makes fp32 weights of the checkpoint's.
TEST(Moments, EveryRankLoadsWithoutZeroInit) {
  const std::string line =
      "--model meta-llama/Meta-Llama-3-8B --gpus 8 --gpu H100-SXM-80GB --zero 3 --tp 1 --offload none "
      "--load-dtype fp32";
  EXPECT_EQ(host_of(first_plan(line), "load"), 0);
  EXPECT_EQ(host_of(first_plan(line + " --load-everywhere"), "load"), 8 * 4 * kParameters);
}

TEST(Moments, StepsFitAndTheEvaluationDoesNot) {
  const std::string line =
      "--model meta-llama/Meta-Llama-3-8B --gpus 8 --gpu H100-SXM-80GB --zero 3 --tp 1 --offload none "
      "--eval-batch 8 ";
  EXPECT_TRUE(first_plan(line).at("fits").get<bool>());
  const json plan = first_plan(line + "--eval-logits --eval-samples 2048");
  EXPECT_EQ(plan.at("short_moment"), "evaluation");
  EXPECT_THAT(why_of(plan), HasSubstr("preprocess_logits_for_metrics"));
  // All logits of 32 steps in 16 bits, and once more while they are concatenated.
  const std::int64_t logits = std::int64_t{2048} * 2048 * 128256 * 2;
  EXPECT_EQ(moment(plan, "evaluation").at("parts").back().at("device"), 2 * logits);
  // In fp32 on the host of each rank, beside the 16-bit copy.
  EXPECT_EQ(moment(plan, "evaluation").at("parts").back().at("host"), 3 * logits);
}

// Every rank clones its state dict below stage 3, and copies flat states of a checkpoint.
TEST(Moments, EveryRankClonesTheStateDictBelowStage3) {
  const json plan = first_plan(
      "--model meta-llama/Meta-Llama-3-8B --gpus 8 --gpu H100-SXM-80GB --zero 2 --tp 1 --offload none");
  EXPECT_EQ(host_of(plan, "save_model"), 8 * 2 * kParameters);
  EXPECT_NEAR(static_cast<double>(host_of(plan, "save_checkpoint")), 4.0 * kParameters, 1e6);
  EXPECT_EQ(host_of(plan, "load"), 0);
}

TEST(Moments, GenerationHoldsKeysAndValues) {
  const std::string line =
      "--model meta-llama/Meta-Llama-3-8B --gpus 8 --gpu H100-SXM-80GB --zero 3 --tp 1 --offload none --seq "
      "1024 "
      "--eval-batch 4 --generate ";
  const auto keys = [&](const std::string& tokens) {
    return moment(first_plan(line + tokens), "generation")
        .at("parts")
        .back()
        .at("device")
        .get<std::int64_t>();
  };
  // 32 layers and one more, 8 heads of 128, keys and values in 16 bits.
  EXPECT_EQ(keys("1024"), std::int64_t{2} * 4 * 2048 * 33 * 2 * 8 * 128);
  EXPECT_GT(keys("2048"), keys("1024"));
}

TEST(RunCost, IsStepsTimesSecondsTimesPrice) {
  const json plan = first_plan(
      "--model meta-llama/Meta-Llama-3-8B --gpus 8 --gpu H100-SXM-80GB --zero 3 --tp 1 --offload none "
      "--samples 50000 --epochs 3 --price 2.5 --global-batch 64");
  const json& run = plan.at("run");
  EXPECT_EQ(run.at("steps"), (50000 + 63) / 64 * 3);
  const double wall = run.at("steps").get<double>() * plan.at("time").at("step").get<double>();
  EXPECT_DOUBLE_EQ(run.at("wall_seconds").get<double>(), wall);
  EXPECT_NEAR(run.at("cost").get<double>(), wall / 3600 * 8 * 2.5, 1e-6);
  EXPECT_GT(run.at("speeds_judged").get<int>(), 0);
  EXPECT_LT(run.at("cost_range").at("low").get<double>(), run.at("cost").get<double>());
  EXPECT_GT(run.at("cost_range").at("high").get<double>(), run.at("cost").get<double>());
  EXPECT_THAT(why_of(plan), HasSubstr("at 2.50 per GPU-hour"));
}

// Both are of the same speed: a run that may be twice as fast takes half as long, not twice.
TEST(RunCost, IsAsUncertainAsItsSteps) {
  const json plan = first_plan(
      "--model meta-llama/Meta-Llama-3-8B --gpus 8 --gpu A10G --zero 3 --tp 1 --samples 50000 --price 2.5");
  const json &run = plan.at("run"), &step = plan.at("ranges").at("step_seconds");
  for (const std::string end : {"low", "high"}) {
    const double of_step = step.at(end).get<double>() / plan.at("time").at("step").get<double>();
    EXPECT_NEAR(run.at("wall_seconds_range").at(end).get<double>() / run.at("wall_seconds").get<double>(),
                of_step, 1e-9);
    EXPECT_NEAR(run.at("cost_range").at(end).get<double>() / run.at("cost").get<double>(), of_step, 1e-9);
  }
}

TEST(RunCost, TokensCountAsSamplesOfThatLength) {
  const std::string line =
      "--model meta-llama/Meta-Llama-3-8B --gpus 8 --gpu H100-SXM-80GB --zero 3 --tp 1 --offload none --seq "
      "2000 ";
  EXPECT_EQ(first_plan(line + "--tokens 16000000").at("run").at("steps"), 1000);
  EXPECT_FALSE(first_plan(line).contains("run"));
}

TEST(Moments, OptionsThatDoNothingAreErrors) {
  for (const auto& [options, message] : std::vector<std::pair<std::string, std::string>>{
           {"--eval-logits", "--eval-logits: does nothing without --eval-batch"},
           {"--eval-batch 1 --eval-logits", "--eval-samples: missing"},
           {"--eval-batch 1 --eval-samples 5", "--eval-samples: does nothing without --eval-logits"},
           {"--price 2", "--price: does nothing without --samples or --tokens"},
           {"--samples 1 --tokens 1", "--tokens: given with --samples"},
           {"--framework fsdp --load-everywhere", "--load-everywhere: does nothing with --framework fsdp"},
           {"--framework torch --save sharded", "--save: does nothing with --framework torch"}}) {
    const Result result = in_process("--model 8B --gpus 2 " + options);
    EXPECT_EQ(result.status, 2) << options;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace zplan::test
