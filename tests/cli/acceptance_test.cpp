// The main questions, with figures that can be checked by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/catalogue/catalogue.h"
#include "planner/plan/plan.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string first_reason(const json& plan) { return plan.at("why").at(0).get<std::string>(); }

/// On GPUs of 44 GiB five GPUs hold an 8-billion model only where its states are sharded: bf16 Adam needs 16
/// B per parameter, 119 GiB; stage 2 leaves 2 B + 14 B / 5 on each GPU, 36 GiB before anything else.
class EightBillion : public testing::TestWithParam<const char*> {};

TEST_P(EightBillion, TakesStage3AndSaysByHowMuchTheOthersMiss) {
  const json r = report(std::string("--gpus 5 --mem 44 --model ") + GetParam());
  EXPECT_EQ(r.at("recommended"), "zero3");
  for (const char* id : {"zero0", "zero1", "zero2"}) {
    EXPECT_FALSE(plan_of(r, id).at("fits")) << id;
    EXPECT_THAT(first_reason(plan_of(r, id)), HasSubstr("short by")) << id;
  }
}

TEST_P(EightBillion, OffloadFitsButIsSlower) {
  const json r = report(std::string("--gpus 5 --mem 44 --model ") + GetParam());
  for (const char* id : {"zero3+offload-optimizer", "zero3+offload-all"}) {
    EXPECT_TRUE(plan_of(r, id).at("fits")) << id;
    EXPECT_LT(plan_of(r, id).at("time").at("tokens_per_second"),
              plan_of(r, "zero3").at("time").at("tokens_per_second"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EightBillion, testing::Values("8B", "Qwen/Qwen3-8B"),
                         [](const auto& each) { return each.index == 0 ? "Size" : "Catalogue"; });

/// The table of Rajbhandari et al. 2020, figure 1, for K bytes per parameter: weights + gradients + optimizer
/// states, of which stage 1 divides the last, stage 2 the last two and stage 3 all by the number of GPUs.
struct SteadyCase {
  std::string options;
  std::vector<double> gigabytes;  ///< stages 0 to 3
};

void PrintTo(const SteadyCase& each, std::ostream* out) { *out << each.options; }

std::int64_t steady_bytes(const json& plan) {
  const json& steady = plan.at("memory").at("steady");
  std::int64_t sum = 0;
  for (const char* part : {"parameters", "gradients", "optimizer_states"})
    sum += steady.at(part).get<std::int64_t>();
  return sum;
}

class SteadyState : public testing::TestWithParam<SteadyCase> {};

TEST_P(SteadyState, IsWhatTheZeroPaperTabulates) {
  const json r = report(GetParam().options + " --units GB --tp 1 --offload none");
  for (std::size_t stage = 0; stage < 4; ++stage)
    EXPECT_EQ(steady_bytes(plan_of(r, "zero" + std::to_string(stage))),
              static_cast<std::int64_t>(GetParam().gigabytes[stage] * 1e9))
        << "stage " << stage;
}

INSTANTIATE_TEST_SUITE_P(
    Tables, SteadyState,
    testing::Values(SteadyCase{"--model 8B --gpus 5 --mem 44 --precision bf16 --no-master-weights",
                               {96, 44.8, 32, 19.2}},
                    SteadyCase{"--model 175B --gpus 8 --mem 80 --precision fp32", {2800, 1575, 962.5, 350}},
                    SteadyCase{"--model 7B --gpus 1 --mem 80 --precision fp32", {112, 112, 112, 112}},
                    SteadyCase{"--model 8B --gpus 1 --mem 80", {128, 128, 128, 128}}));

TEST(FrozenMixture, Stage2LeavesItsWeightsOnEveryCard) {
  const Result text =
      in_detail("--model Qwen/Qwen3-30B-A3B --method lora --zero 2 --gpus 5 --mem 44 --micro-batch 2");
  EXPECT_EQ(text.status, kNothingFits);
  // 30,532,122,624 parameters (named_parameters of the Hub's own module) of 2 B are 56.9 GiB.
  EXPECT_THAT(text.out, HasSubstr("ZeRO-2 leaves 56.9 GiB of frozen weights on every GPU"));
  EXPECT_THAT(text.out, HasSubstr("What fits instead: zero3"));
  EXPECT_THAT(text.out, HasSubstr("--zero 3"));
}

TEST(FrozenMixture, TheCommandThatIsOfferedFits) {
  const std::string line =
      "--model Qwen/Qwen3-30B-A3B --method lora --gpus 5 --mem 44 --micro-batch 2 --zero 3 --tp 1 --offload "
      "none";
  EXPECT_THAT(
      in_detail("--model Qwen/Qwen3-30B-A3B --method lora --zero 2 --gpus 5 --mem 44 --micro-batch 2").out,
      HasSubstr("zplan " + line + "\n"));
  EXPECT_EQ(in_detail(line).status, kFits);
}

// A mixture with linear attention: dividing its experts is weighed, and refused while they have adapters.
TEST(LinearAttention, MixtureIsPlannedWithAdapters) {
  const std::string line =
      "--model Qwen/Qwen3-Next-80B-A3B-Instruct --gpus 16 --nodes 2 --gpu H100-SXM-80GB --method lora";
  EXPECT_TRUE(report(line).at("plans").at(0).at("fits").get<bool>());
  const Result divided = in_process(line + " --zero 3 --tp 1 --ep 16");
  EXPECT_EQ(divided.status, 2);
  EXPECT_THAT(divided.err, HasSubstr("AutoEP makes routers and experts anew, without the adapters"));
}

TEST(ExactCounts, ABareSizeIsExactlyThat) {
  EXPECT_EQ(report("--model 8B --gpus 1 --mem 80").at("model").at("parameters"), 8'000'000'000);
  EXPECT_EQ(report("--model 0.5B --gpus 1 --mem 80").at("model").at("parameters"), 500'000'000);
}

TEST(Adapters, OnlyThemTrain) {
  const json r =
      report("--model Qwen/Qwen3-8B --method lora --lora-rank 8 --lora-targets q_v --gpus 1 --mem 80");
  // Rank 8 on q_proj (4096 → 4096) and v_proj (4096 → 1024) of 36 layers: 36·8·((4096 + 4096) + (4096 +
  // 1024)).
  EXPECT_EQ(r.at("model").at("trainable_parameters"), 36 * 8 * (8192 + 5120));
  EXPECT_EQ(r.at("training").at("lora_rank"), 8);
}

/// FSDP with QLoRA: 70B on two consumer GPUs, where 39 GiB of packed bytes on each fit nowhere.
TEST(PackedWeights, SeventyBillionTrainsOnTwoConsumerGpus) {
  const json r = report("--model 70B --gpus 2 --gpu RTX-3090-24GB --method qlora --seq 512");
  EXPECT_TRUE(r.at("recommended").is_null());
  ASSERT_TRUE(r.at("alternative").is_object());
  EXPECT_EQ(r.at("alternative").at("change"), "--framework fsdp --quant-storage bf16");
  const json& plan = r.at("alternative").at("plan");
  EXPECT_EQ(plan.at("id"), "fsdp+offload-all");
  EXPECT_TRUE(plan.at("fits"));
  EXPECT_THAT(plan.at("why").dump(), HasSubstr("bnb_4bit_quant_storage=torch.bfloat16"));
  EXPECT_THAT(plan.at("why").dump(), HasSubstr("device_map"));
}

/// Half a byte for each of 8B's packed weights is divided, what scales them is not: at ZeRO-3 on four GPUs
/// three quarters of the former are gone from each.
TEST(PackedWeights, ValuesAreShardedAndTheirScalesAreNot) {
  const std::string question = "--model meta-llama/Llama-3.1-8B --gpus 4 --method qlora --zero ";
  const auto parameters = [](const json& plan) {
    return plan.at("memory").at("steady").at("parameters").get<double>();
  };
  const double whole = parameters(plan_of(report(question + "2"), "zero2"));
  const double sharded = parameters(plan_of(report(question + "3 --quant-storage bf16"), "zero3"));
  constexpr double kPacked = 6'979'321'856;  // linear weights of 32 layers
  constexpr double kOthers = 1'050'939'392;  // embeddings, head and norms, 2 B each
  constexpr double kAdapters = 41'943'040;   // trained parameters of rank 16
  EXPECT_NEAR(whole - sharded, 0.75 * (0.5 * kPacked + 2 * (kOthers + kAdapters)), 1000);
}

/// A frozen copy is held whole at stage 2; log-probabilities that were computed before need none, and
/// adapters that are switched off no more than the model itself.
TEST(Preferences, AReferenceCopyIsAsLargeAsTheModel) {
  const std::string question =
      "--model Llama-3.2-1B --gpus 2 --zero 2 --offload none --seq 512 --objective dpo";
  const auto needed = [&](const std::string& more) {
    return plan_of(report(question + more), "zero2").at("memory").at("peak_allocated").get<double>();
  };
  constexpr double kModel = 2.0 * 1'235'814'400;
  EXPECT_NEAR(needed(" --reference copy") - needed(" --reference precomputed"), kModel, 0.1 * kModel);
  EXPECT_LT(needed(" --method lora --reference adapters-off") + 0.9 * kModel,
            needed(" --method lora --reference copy"));
}

/// A frozen copy of the adapters is one more in memory.
TEST(Preferences, AReferenceAdapterIsOneMore) {
  const std::string question =
      "--model Llama-3.2-1B --gpus 1 --zero 0 --seq 512 --method lora --lora-rank 64 --objective dpo";
  const auto needed = [&](const std::string& more) {
    return plan_of(report(question + more), "zero0").at("memory").at("peak_allocated").get<double>();
  };
  EXPECT_GT(needed(" --reference adapter"), needed(" --reference adapters-off"));
  EXPECT_EQ(needed(" --reference adapter"), needed(" --reference adapter --adapters 2"));
  EXPECT_EQ(report(question + " --reference adapter").at("training").at("adapters"), 2);
}

/// Weights packed in a form that cannot be trained are loaded unpacked; the report says how.
TEST(PackedModels, SayHowTheyAreLoaded) {
  const std::string question =
      "--model openai/gpt-oss-20b --gpus 8 --mem 80 --zero 3 --offload none --method ";
  EXPECT_THAT(in_process(question + "lora").out, HasSubstr("Mxfp4Config(dequantize=True)"));
  EXPECT_THAT(in_process("--model 8B --gpus 8 --mem 80 --zero 3 --offload none --method lora").out,
              Not(HasSubstr("Mxfp4Config")));
}

/// Both answers of a pair are computed with at once.
TEST(Preferences, PairsDoubleTheBatch) {
  const auto speed = [](const std::string& more) {
    return plan_of(report("--model Llama-3.2-1B --gpus 1 --zero 0 --seq 1024" + more), "zero0")
        .at("time")
        .at("step")
        .get<double>();
  };
  EXPECT_NEAR(speed(" --objective dpo --reference precomputed --micro-batch 1") / speed(" --micro-batch 2"),
              1, 0.15);
}

TEST(Compare, StandsInTheOrderAskedAndRecommendsTheFastestThatFits) {
  const std::string line = "compare --model 8B --gpus 5 --mem 44 zero3+offload-all zero3 zero0";
  const Result text = in_detail(line);
  EXPECT_EQ(text.status, kFits);
  EXPECT_THAT(text.out, HasSubstr("Differences are from zero3+offload-all"));
  const json r = report(line);
  EXPECT_EQ(r.at("plans").size(), 3U);
  EXPECT_EQ(r.at("recommended"), "zero3");
  EXPECT_EQ(r.at("plans").at(0).at("id"), "zero3");
}

TEST(Compare, SaysWhoIsFasterAndWhereTheyTradePlaces) {
  const std::string line =
      "compare --model meta-llama/Llama-2-13b-hf --gpus 8 --gpu A100-SXM-80GB --seq 512 --global-batch 8 "
      "zero3 "
      "tp8+zero1";
  const json comparison = report(line).at("comparison");
  EXPECT_GE(comparison.at("ratio"), 1.0);
  EXPECT_EQ(comparison.at("link").at("name"), "NVLink");
  const Result text = in_detail(line);
  EXPECT_THAT(text.out, HasSubstr("Side by side\n"));
  EXPECT_THAT(text.out, HasSubstr(comparison.at("faster").get<std::string>() + " is faster here"));
  EXPECT_THAT(text.out,
              HasSubstr(comparison.at("crossover").is_null() ? "is the faster of the two at any NVLink"
                                                             : "the two trade places at"));
}

TEST(Compare, OneGpuHasNoLinkToAskFor) {
  const json comparison = report("compare --model 0.5B --gpus 1 --mem 24 zero0 zero3").at("comparison");
  EXPECT_TRUE(comparison.at("link").is_null());
  EXPECT_TRUE(comparison.at("crossover").is_null());
}

TEST(Compare, WhatDoesNotFitIsComparedToo) {
  const Result text = in_process("compare --model 70B --gpus 8 --gpu H100-SXM-80GB zero3 zero2");
  EXPECT_EQ(text.status, kNothingFits);
  EXPECT_THAT(text.out, HasSubstr("does not fit"));
  EXPECT_THAT(text.out, HasSubstr("though it does not fit"));
}

TEST(Compare, OnlyWhenAsked) {
  EXPECT_TRUE(report("--model 0.5B --gpus 2 --mem 24").at("comparison").is_null());
}

TEST(Compare, GivesTheSameFiguresAsThePlan) {
  const json one = report("compare --model 8B --gpus 5 --mem 44 zero3 zero2"),
             all = report("--model 8B --gpus 5 --mem 44");
  for (const char* id : {"zero2", "zero3"}) EXPECT_EQ(plan_of(one, id), plan_of(all, id));
}

TEST(MicroBatch, MaxIsTheLargestThatFits) {
  const std::string line = "--model 8B --gpus 8 --mem 80 --zero 3 --offload none --tp 1";
  const json most = report(line + " --micro-batch max");
  const auto batch = plan_of(most, "zero3").at("strategy").at("micro_batch_size").get<std::int64_t>();
  EXPECT_GT(batch, 1);
  EXPECT_TRUE(report(line + " --micro-batch " + std::to_string(batch)).at("plans").at(0).at("fits"));
  EXPECT_FALSE(report(line + " --micro-batch " + std::to_string(batch + 1)).at("plans").at(0).at("fits"));
}

TEST(Headroom, LeavesThatShareFree) {
  const json r = report("--model 0.5B --gpus 1 --mem 40 --headroom 25");
  const auto usable = r.at("cluster").at("usable_memory_bytes").get<double>();
  EXPECT_NEAR(r.at("cluster").at("available_memory_bytes").get<double>(), 0.75 * usable, 1);
}

TEST(Units, ChangeTheReportAndNotTheFigures) {
  const std::string line = "--model 8B --gpus 5 --mem 44";
  EXPECT_THAT(in_process(line + " --units GB").out, HasSubstr("47.2 GB"));  // 44 GiB
  EXPECT_THAT(in_process(line + " --units GB").out, Not(HasSubstr("needs 32.0 GiB")));
  json gib = report(line), gb = report(line + " --units GB");
  for (json* each : {&gib, &gb})
    for (json& plan : each->at("plans")) plan.erase("why");
  EXPECT_EQ(gib.at("plans"), gb.at("plans"));
}

// A name and its config.json are one model: the same plans, config and launch lines, byte for byte.
TEST(ConfigFile, GivesThePlansOfItsCatalogueName) {
  const Folder folder;
  const std::vector<CatalogueEntry>& entries = catalogue();
  for (std::size_t i = 0; i < entries.size(); i += 15) {
    const std::string file = folder.write("config.json", entries[i].config);
    const json by_name = report("--gpus 8 --mem 80 --model " + entries[i].name);
    const json by_file = report("--gpus 8 --mem 80 --model " + file);
    EXPECT_EQ(by_file.at("plans").dump(), by_name.at("plans").dump()) << entries[i].name;
    EXPECT_EQ(by_file.at("ds_config").dump(), by_name.at("ds_config").dump()) << entries[i].name;
  }
}

}  // namespace
}  // namespace zplan::test
