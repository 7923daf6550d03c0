// accelerate's configs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/recipes/formats/recipe_support.h"

namespace zplan::test::of_accelerate {
namespace {

using testing::HasSubstr;
using testing::Not;

json planned_of(const std::string& text) {
  return planned_as(text, "accelerate.yaml", "--model Qwen/Qwen3-8B --gpus 8");
}
json chosen(const std::string& text) { return planned_of(text).at("plans").at(0).at("strategy"); }

TEST(Accelerate, NoIsAWordOrABoolean) {
  for (const char* no : {"NO", "'NO'", "\"NO\"", "no", "false"}) {
    const json r = planned_of(std::string("distributed_type: ") + no + "\nmixed_precision: 'no'\n");
    EXPECT_EQ(r.at("plans").at(0).at("strategy").at("framework"), "torch") << no;
  }
  EXPECT_THAT(refused("distributed_type: MEGATRON_LM\n", "accelerate.yaml", "--model 8B"),
              HasSubstr("Megatron-LM is not planned yet"));
}

TEST(Accelerate, HybridShardingHasReplicas) {
  const std::string fsdp =
      "distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n  fsdp_version: 2\n  "
      "fsdp_reshard_after_forward: true\n";
  const json hybrid = chosen(fsdp +
                             "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n"
                             "  parallelism_config_dp_shard_size: 4\n");
  EXPECT_EQ(hybrid.at("dp_replicate"), 2);
  EXPECT_EQ(hybrid.at("data_parallel"), 8);
  EXPECT_FALSE(chosen(fsdp).contains("dp_replicate"));
  const json nodes = planned_as(
      "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nmixed_precision: bf16\n"
      "fsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n",
      "accelerate.yaml", "--model Qwen/Qwen3-8B --gpus 16");
  EXPECT_EQ(nodes.at("plans").at(0).at("strategy").at("dp_replicate"), 2);
  EXPECT_THAT(not_planned(nodes), HasSubstr("fsdp_config"));
}

TEST(Accelerate, DegreesAreUsedOrNamed) {
  const std::string ulysses =
      "parallelism_config:\n  parallelism_config_sp_size: 2\n  parallelism_config_tp_size: 1\n";
  EXPECT_EQ(chosen("distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config: {zero_stage: 3}\n" +
                   ulysses)
                .at("sequence_parallel"),
            2);
  EXPECT_THAT(not_planned(planned_of("distributed_type: MULTI_GPU\n" + ulysses)),
              HasSubstr("parallelism_config_sp_size"));
  EXPECT_THAT(not_planned(planned_of("distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n"
                                     "parallelism_config: {parallelism_config_tp_size: 2}\n")),
              HasSubstr("parallelism_config_tp_size"));
  EXPECT_EQ(
      chosen("distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}\n"
             "parallelism_config: {parallelism_config_tp_size: 2}\n")
          .at("tensor_parallel"),
      2);
}

TEST(Accelerate, NamesEightBitsAndOtherDevices) {
  EXPECT_THAT(not_planned(planned_of("distributed_type: MULTI_GPU\nmixed_precision: fp8\n")),
              HasSubstr("mixed_precision"));
  EXPECT_THAT(not_planned(planned_of("distributed_type: MULTI_XPU\n")), HasSubstr("distributed_type"));
}

// DeepSpeed offloads parameters at stage 3 alone.
TEST(Accelerate, ParametersStayBelowStage3) {
  const json r = planned_of(
      "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 2\n"
      "  offload_optimizer_device: cpu\n  offload_param_device: cpu\n");
  const json& strategy = r.at("plans").at(0).at("strategy");
  EXPECT_EQ(strategy.at("offload_optimizer"), "cpu");
  EXPECT_EQ(strategy.at("offload_parameters"), "none");
  EXPECT_THAT(not_planned(r), HasSubstr("offload_param_device"));
}

}  // namespace
}  // namespace zplan::test::of_accelerate
