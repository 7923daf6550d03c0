// Stored bytes of quantised weights, optimizer states and allocator slack, against what was measured.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "planner/plan/legality.h"
#include "planner/sharding/rank_model.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/allowances.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

TEST(QuantisedWeights, AreStoredAsTheirLibrariesStoreThem) {
  std::size_t rows = 0;
  for (const Json& row : test_json("reference/quantised/stored.json")) {
    const Model model = read_config(JsonReader(row["config"], "measured model"));
    Training training;
    training.method = Method::qlora;
    training.quantization = parse_name<Quantization>("quantization", row["quantization"].get<std::string>());
    EXPECT_EQ(rank_model(model, training, 1).frozen_size.value, row["stored"].get<std::int64_t>())
        << row["model"] << " " << row["quantization"];
    ++rows;
  }
  EXPECT_GE(rows, 23U);
}

std::string refusal(Training training, const Strategy& strategy, std::int64_t gpus) {
  training.method = Method::qlora;
  const Model model =
      read_config(JsonReader(test_json("reference/quantised/stored.json")[0]["config"], "model"));
  std::string all;
  for (const std::string& reason : why_illegal(model, training, strategy, {gpus, gpus})) all += reason + "\n";
  return all;
}

// Weights over which no library trains adapters, and frameworks that do not take them, with their reasons.
TEST(QuantisedWeights, AreRefusedWhereTheyDoNotTrain) {
  using ::testing::HasSubstr;
  const Strategy alone{.zero_stage = 0};
  Training training;
  training.framework = Framework::torch;
  for (const Quantization trained : {Quantization::awq, Quantization::hqq, Quantization::torchao_int8}) {
    training.quantization = trained;
    EXPECT_EQ(refusal(training, alone, 1), "") << to_name(trained);
  }
  training.quantization = Quantization::torchao_int4;
  EXPECT_THAT(refusal(training, alone, 1), HasSubstr("torchao-int8"));
  training.quantization = Quantization::mxfp4;
  EXPECT_THAT(refusal(training, alone, 1), HasSubstr("Mxfp4Config(dequantize=True)"));
  Strategy two{.zero_stage = 0, .layout = {.shard = 2}};
  training.quantization = Quantization::torchao_int8;
  EXPECT_THAT(refusal(training, two, 2), HasSubstr("one GPU alone"));
  training.quantization = Quantization::hqq;
  EXPECT_EQ(refusal(training, two, 2), "");
  training.framework = Framework::deepspeed;
  two.zero_stage = 3;
  EXPECT_THAT(refusal(training, two, 2), HasSubstr("hqq has no such storage"));
  training.framework = Framework::fsdp;
  EXPECT_THAT(refusal(training, two, 2), HasSubstr("hqq has no such storage"));
  training.framework = Framework::torch, training.quantization = Quantization::awq, training.dora = true;
  EXPECT_THAT(refusal(training, alone, 1), HasSubstr("no DoRA"));
}

// peft finds no type to make adapters in beside packed integers (autocast_adapter_dtype=False).
TEST(QuantisedWeights, OfIntegersLeaveAdaptersInFp32) {
  Training training;
  training.method = Method::qlora, training.fp32_adapters = false;
  for (const QuantizationSpec& each : kQuantizations) {
    if (!each.untrained.empty()) continue;
    training.quantization = each.quantization;
    const bool typed = each.name.starts_with("nf4") || each.name == "torchao-int8";
    EXPECT_EQ(adapter_size(training), Bytes(typed ? 2 : 4)) << each.name;
  }
}

TEST(Adapters, ThatDoNotTrainAreFrozen) {
  const Model model =
      read_config(JsonReader(test_json("reference/quantised/stored.json")[0]["config"], "model"));
  Training training;
  training.method = Method::lora;
  const RankModel one = rank_model(model, training, 1);
  training.adapters = 3;
  const RankModel three = rank_model(model, training, 1);
  EXPECT_EQ(three.trainable, one.trainable);
  EXPECT_EQ(three.frozen, one.frozen + one.trainable + one.trainable);
  training.adapters = 1, training.objective = Objective::dpo, training.reference = ReferenceModel::adapter;
  EXPECT_EQ(held_adapters(training), 2);
  EXPECT_EQ(refusal(training, {.zero_stage = 2, .layout = {.shard = 2}}, 2), "");
  EXPECT_THAT(refusal(training, {.zero_stage = 3, .layout = {.shard = 2}}, 2),
              ::testing::HasSubstr("--reference adapter"));
}

// Small tensors keep fp32 states under 8-bit Adam, and blocks end with a tensor: together below 0.01 %.
TEST(OptimizerStates, AreWhatTheOptimizersKeep) {
  std::size_t rows = 0;
  for (const Json& row : test_json("reference/quantised/optimizer_states.json")) {
    const Model model = read_config(JsonReader(row["config"], "measured model"));
    Training training;
    training.optimizer = parse_name<Optimizer>("optimizer", row["optimizer"].get<std::string>());
    const RankModel rank = rank_model(model, training, 1);
    const auto measured = row["state"].get<double>();
    EXPECT_NEAR(static_cast<double>(optimizer_states(rank, training, rank.trainable).value), measured,
                1e-3 * measured)
        << row["model"] << " " << row["optimizer"];
    ++rows;
  }
  EXPECT_GE(rows, 4U);
}

TEST(CublasWorkspaces, AreLargerFromHopperOn) {
  EXPECT_EQ(cublas_workspaces("8.0"), Bytes(2 * 8'519'680));
  EXPECT_EQ(cublas_workspaces("9.0"), kMiB * 64);
  EXPECT_EQ(cublas_workspaces("12.0"), kMiB * 64);
}

}  // namespace
}  // namespace zplan::testing
