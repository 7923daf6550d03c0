// Command lines of plans under FSDP2 and plain PyTorch.

#include "planner/frameworks/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grid.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

Launch launch(Framework framework, const Strategy& strategy, std::int64_t gpus = 8, std::int64_t nodes = 1,
              const Training& training = {}) {
  Plan plan = plan_of(strategy);
  plan.framework = framework;
  const Question question = question_of(llama_8b(), gpus, nodes, with_framework(training, framework));
  return launch_lines(plan, question, framework == Framework::fsdp ? "fsdp.yaml" : "ds_config.json");
}

const Strategy kSharded{.zero_stage = 3, .layout = {.shard = 8}, .micro_batch_size = 2};
const Strategy kReplicated{.zero_stage = 0, .layout = {.shard = 8}};

TEST(FsdpLaunch, TakesTheConfigAlone) {
  const Launch lines = launch(Framework::fsdp, kSharded);
  EXPECT_EQ(lines.accelerate, "accelerate launch --config_file fsdp.yaml train.py");
  EXPECT_EQ(lines.deepspeed, "");
  EXPECT_EQ(lines.torchrun, "");
}

TEST(FsdpLaunch, SeveralNodesMeetAtTheFirst) {
  EXPECT_EQ(launch(Framework::fsdp, kSharded, 16, 2).accelerate,
            "accelerate launch --config_file fsdp.yaml --machine_rank $NODE_RANK --main_process_ip "
            "$MASTER_ADDR --main_process_port 29500 train.py");
}

TEST(FsdpLaunch, SwiftTakesItsOwnConfigWhereThatIsThePlan) {
  EXPECT_THAT(launch(Framework::fsdp, kSharded).swift,
              AllOf(EndsWith("--fsdp fsdp2"), HasSubstr("--gradient_checkpointing false"),
                    Not(HasSubstr("--deepspeed"))));
  Strategy open = kSharded;
  open.zero_stage = 2;
  EXPECT_THAT(launch(Framework::fsdp, open).swift,
              AllOf(HasSubstr("--fsdp '{\"fsdp\":\"full_shard auto_wrap\""),
                    HasSubstr("\"reshard_after_forward\":false")));
}

TEST(FsdpLaunch, TorchtitanGetsDegreesBatchAndLength) {
  EXPECT_EQ(
      launch(Framework::fsdp, kSharded).torchtitan,
      "torchrun --nproc_per_node 8 -m torchtitan.train --module MODULE --config CONFIG "
      "--parallelism.data_parallel_shard_degree 8 --parallelism.fsdp_reshard_after_forward always "
      "--parallelism.tensor_parallel_degree 1 --training.local_batch_size 2 --training.global_batch_size 16 "
      "--training.seq_len 2048 activation-checkpoint:full");
  EXPECT_EQ(launch(Framework::fsdp, kSharded, 8, 1, {.method = Method::lora}).torchtitan, "");
}

TEST(TorchLaunch, NeedsNoConfig) {
  const Launch lines = launch(Framework::torch, kReplicated);
  EXPECT_EQ(lines.torchrun, "torchrun --nproc_per_node 8 train.py");
  EXPECT_EQ(lines.accelerate,
            "accelerate launch --multi_gpu --num_processes 8 --mixed_precision bf16 train.py");
  EXPECT_THAT(lines.swift, AllOf(HasSubstr("--torch_dtype float32"), Not(HasSubstr("--deepspeed"))));
  EXPECT_THAT(lines.torchtitan, HasSubstr("--parallelism.data_parallel_replicate_degree 8 "
                                          "--parallelism.data_parallel_shard_degree 1"));
}

TEST(SwiftLaunch, NamesItsOwnDsConfigWhereThatIsThePlan) {
  Strategy strategy = kSharded;
  EXPECT_THAT(launch(Framework::deepspeed, strategy).swift, HasSubstr("--deepspeed ds_config.json"));
  strategy.zero = zero_options(Buckets::hf_auto, 4096);
  strategy.zero.overlap_comm = false;
  EXPECT_THAT(launch(Framework::deepspeed, strategy).swift, EndsWith("--deepspeed zero3"));
  strategy.offload_optimizer = strategy.offload_parameters = OffloadDevice::cpu;
  EXPECT_THAT(launch(Framework::deepspeed, strategy).swift, EndsWith("--deepspeed zero3_offload"));
  EXPECT_THAT(launch(Framework::deepspeed, strategy, 8, 1, {.optimizer = Optimizer::lion}).swift,
              EndsWith("--deepspeed ds_config.json"));
  EXPECT_THAT(launch(Framework::deepspeed, kReplicated).swift, EndsWith("--deepspeed zero0"));
}

}  // namespace
}  // namespace zplan::testing
