#include "planner/frameworks/launch/accelerate_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grid.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr OffloadDevice kCpu = OffloadDevice::cpu;

Plan fsdp(const Strategy& strategy) {
  Plan plan = plan_of(strategy);
  plan.framework = Framework::fsdp;
  return plan;
}

Question fsdp_question(std::int64_t gpus, std::int64_t nodes, Training training = {}) {
  return question_of(llama_8b(), gpus, nodes, with_framework(std::move(training), Framework::fsdp));
}

Json config(const Strategy& strategy, const Training& training = {}) {
  return accelerate_config(fsdp(strategy), fsdp_question(8, 1, training));
}

TEST(AccelerateConfig, IsWhatTheQuestionnaireWouldWrite) {
  EXPECT_EQ(yaml_text(config({.zero_stage = 3, .layout = {.shard = 8}})),
            "compute_environment: LOCAL_MACHINE\n"
            "distributed_type: FSDP\n"
            "mixed_precision: bf16\n"
            "num_machines: 1\n"
            "num_processes: 8\n"
            "machine_rank: 0\n"
            "fsdp_config:\n"
            "  fsdp_version: 2\n"
            "  fsdp_reshard_after_forward: true\n"
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
            "  fsdp_offload_params: false\n"
            "  fsdp_cpu_ram_efficient_loading: true\n"
            "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
            "  fsdp_activation_checkpointing: true\n");
}

TEST(AccelerateConfig, FollowsTheStrategy) {
  const Json open = config({.zero_stage = 2, .layout = {.shard = 8}, .checkpointing = Checkpointing::none});
  EXPECT_EQ(open.at("fsdp_config").at("fsdp_reshard_after_forward"), false);
  EXPECT_EQ(open.at("fsdp_config").at("fsdp_activation_checkpointing"), false);
  const Json offloaded = config(
      {.zero_stage = 3, .layout = {.shard = 8}, .offload_optimizer = kCpu, .offload_parameters = kCpu});
  EXPECT_EQ(offloaded.at("fsdp_config").at("fsdp_offload_params"), true);
  const Json hybrid = config({.zero_stage = 3, .layout = {.shard = 4, .replicate = 2}});
  EXPECT_EQ(hybrid.at("parallelism_config").at("parallelism_config_dp_shard_size"), 4);
}

/// accelerate makes fp32 of 16-bit weights as soon as mixed_precision is anything but "no".
TEST(AccelerateConfig, MixedPrecisionSaysWhatIsStored) {
  const Strategy strategy{.zero_stage = 3, .layout = {.shard = 8}};
  EXPECT_EQ(config(strategy, {.master_weights = false}).at("mixed_precision"), "no");
  EXPECT_EQ(config(strategy, {.precision = Precision::fp32}).at("mixed_precision"), "no");
  EXPECT_EQ(config(strategy, {.precision = Precision::fp16}).at("mixed_precision"), "fp16");
  EXPECT_EQ(config(strategy, {.method = Method::lora}).at("mixed_precision"), "bf16");
  EXPECT_THAT(yaml_text(config(strategy, {.master_weights = false})), HasSubstr("mixed_precision: \"no\"\n"));
}

TEST(AccelerateConfig, NotesSayWhatTheScriptHasToDo) {
  const auto notes = [](const Strategy& s, const Training& training = {}) {
    return fsdp_notes(fsdp(s), fsdp_question(8, 1, training));
  };
  EXPECT_THAT(notes({.zero_stage = 3, .layout = {.shard = 8}}),
              Contains(HasSubstr("leave gradient_checkpointing off")));
  EXPECT_THAT(notes({.zero_stage = 3, .layout = {.shard = 8}, .micro_batch_size = 4}),
              Contains(HasSubstr("per_device_train_batch_size=4, gradient_accumulation_steps=1")));
  EXPECT_THAT(notes({.zero_stage = 3, .layout = {.shard = 8}}, {.master_weights = false}),
              Contains(HasSubstr("load the model in bf16")));
  for (const std::string& note : notes({.zero_stage = 3, .layout = {.shard = 8}}))
    EXPECT_THAT(note, Not(HasSubstr("DeepSpeed")));
}

}  // namespace
}  // namespace zplan::testing
