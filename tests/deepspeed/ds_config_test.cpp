// Configs over the whole grid of plans, and those kept in golden/.

#include "planner/frameworks/deepspeed/config/ds_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "grid.h"
#include "planner/frameworks/deepspeed/config/config_warnings.h"
#include "support.h"

namespace zplan::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ConfigStyle kStyles[] = {ConfigStyle::plain, ConfigStyle::hf_auto, ConfigStyle::ms_swift};

TEST(DsConfig, GridHasEveryStageAndStyleOfOffload) {
  std::set<std::string> ids;
  for (const GridCase& each : grid()) ids.insert(each.plan.id());
  for (const char* id : {"zero0", "zero1+offload-optimizer", "zero3+offload-all-nvme", "tp8+zero3"})
    EXPECT_TRUE(ids.count(id)) << id;
}

TEST(DsConfig, MatchesGolden) {
  for (const GoldenCase& each : golden_cases()) {
    SCOPED_TRACE(each.name);
    EXPECT_EQ(golden_config(each).dump(2), test_json("deepspeed/golden/" + each.name + ".json").dump(2));
  }
}

TEST(DsConfig, HasOnlyKeysThatDeepSpeedKnows) {
  for (const GridCase& each : grid())
    for (const ConfigStyle style : kStyles) {
      const Json config = ds_config(each.plan, each.question, style);
      EXPECT_THAT(check_keys(JsonReader(config, each.name)), IsEmpty()) << each.name;
    }
}

TEST(DsConfig, BatchAddsUpOnEveryGpu) {
  for (const GridCase& each : grid()) {
    SCOPED_TRACE(each.name);
    const Json config = ds_config(each.plan, each.question);
    const std::int64_t micro = config.at("train_micro_batch_size_per_gpu");
    const std::int64_t steps = config.at("gradient_accumulation_steps");
    if (each.plan.strategy.layout.tensor > 1)
      EXPECT_FALSE(config.contains("train_batch_size"));
    else
      EXPECT_EQ(config.at("train_batch_size"), micro * steps * each.question.cluster.gpus);
  }
}

/// Keys that DeepSpeed reads at ZeRO-3 only.
const char* const kStage3[] = {"stage3_prefetch_bucket_size",
                               "stage3_param_persistence_threshold",
                               "stage3_max_live_parameters",
                               "stage3_max_reuse_distance",
                               "sub_group_size",
                               "offload_param",
                               "stage3_gather_16bit_weights_on_model_save"};

TEST(DsConfig, HasNothingThatDoesNothingAtItsStage) {
  for (const GridCase& each : grid())
    for (const ConfigStyle style : kStyles) {
      SCOPED_TRACE(each.name);
      const Json config = ds_config(each.plan, each.question, style);
      const Json& zero = config.at("zero_optimization");
      const int stage = zero.at("stage");
      EXPECT_TRUE(stage > 0 || zero.size() == 1u) << zero.dump();
      EXPECT_TRUE(stage < 3 || !zero.contains("parameter_alignment"));
      for (const char* key : kStage3) EXPECT_TRUE(stage == 3 || !zero.contains(key)) << key;
      EXPECT_EQ(config.contains("aio"), config.dump().find("nvme_path") != std::string::npos);
      EXPECT_FALSE(config.contains("activation_checkpointing"));
    }
}

TEST(DsConfig, RepeatsNoDefaultOfDeepSpeed) {
  const Json defaults = test_json("reference/ds_config/defaults.json");
  for (const GridCase& each : grid()) {
    const Json config = ds_config(each.plan, each.question);
    for (const auto& [pointer, section] : defaults.items()) {
      const Json::json_pointer where(pointer);
      if (!config.contains(where)) continue;
      for (const auto& [key, value] : config.at(where).items())
        EXPECT_TRUE(key == "stage" || value != section.at(key)) << each.name << " " << pointer << "/" << key;
    }
  }
}

TEST(DsConfig, ReadsBackAsThePlan) {
  for (const GridCase& each : grid()) {
    SCOPED_TRACE(each.name);
    const Strategy& s = each.plan.strategy;
    const DsConfigPins pins = read(ds_config(each.plan, each.question));
    EXPECT_EQ(pins.zero_stage->value, s.zero_stage);
    EXPECT_EQ(pins.offload->value, (Offload{s.offload_optimizer, s.offload_parameters}));
    EXPECT_EQ(pins.tensor_parallel->value, s.layout.tensor);
    EXPECT_EQ(pins.precision->value, each.question.training.precision);
    const Batch batch = resolve_batch(pins, each.question.cluster.gpus);
    EXPECT_EQ(batch.micro_batch_size, s.micro_batch_size);
    EXPECT_EQ(batch.gradient_accumulation_steps, s.gradient_accumulation_steps);
    EXPECT_EQ(pins.optimizer ? pins.optimizer->value : Optimizer::adamw8bit,
              each.question.training.optimizer);
    EXPECT_TRUE(s.zero_stage < 3 || pins.zero.max_live_parameters == s.zero.max_live_parameters);
    for (const std::string& warning : pins.warnings)
      EXPECT_THAT(warning, AnyOf(HasSubstr("max_live_parameters"), HasSubstr("buffer_size")));
  }
}

TEST(DsConfig, HfAutoLeavesOnlyToTheTrainerWhatItFills) {
  for (const GridCase& each : grid()) {
    const Json config = ds_config(each.plan, each.question, ConfigStyle::hf_auto);
    EXPECT_EQ(config.at("gradient_clipping"), "auto");
    EXPECT_NE(config.at("zero_optimization").at("stage"), "auto");
  }
}

TEST(DsConfig, SwapBufferHoldsTheLargestPartition) {
  const Json config = test_json("deepspeed/golden/zero3-offload-all-nvme-1gpu.json");
  // The embedding of Llama 3 8B on one GPU: 128256 rows of 4096.
  EXPECT_EQ(config.at("/zero_optimization/offload_param/buffer_size"_json_pointer), 128256 * 4096);
}

std::vector<std::string> notes(const Strategy& strategy, const Training& training) {
  return ds_config_notes(plan_of(strategy), question_of(llama_8b(), 8, 1, training));
}

TEST(DsConfigNotes, SayWhatTheScriptHasToDo) {
  EXPECT_THAT(notes({.zero_stage = 2}, {.optimizer = Optimizer::adamw8bit}),
              AllOf(Contains(HasSubstr("gradient_checkpointing_enable")), Contains(HasSubstr("AdamW8bit"))));
  EXPECT_THAT(notes({.zero_stage = 2, .checkpointing = Checkpointing::none}, {}), IsEmpty());
}

TEST(DsConfigNotes, SayWhatDeepSpeedCannot) {
  const auto low = [](int stage, Precision precision) {
    return notes({.zero_stage = stage, .checkpointing = Checkpointing::none},
                 {.precision = precision, .master_weights = false});
  };
  EXPECT_THAT(low(0, Precision::bf16), Contains(HasSubstr("keeps fp32 master weights at stage 0")));
  EXPECT_THAT(low(3, Precision::fp16), Contains(HasSubstr("keeps fp32 master weights at stage 3")));
  EXPECT_THAT(low(3, Precision::bf16), IsEmpty());
}

/// Settings of a config are written again, except those that the Trainer's own arguments say.
TEST(DsConfig, ClippingIsWrittenAsItWasRead) {
  Strategy strategy{.zero_stage = 2, .layout = {.shard = 8}};
  strategy.zero.gradient_clipping = 0.5;
  const Question question = question_of(llama_8b(), 8, 1);
  EXPECT_EQ(ds_config(plan_of(strategy), question).at("gradient_clipping"), 0.5);
  EXPECT_EQ(ds_config(plan_of(strategy), question, ConfigStyle::hf_auto).at("gradient_clipping"), "auto");
}

}  // namespace
}  // namespace zplan::testing
