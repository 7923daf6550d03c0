// Commands of verl, whose config is overridden key by key.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

const std::string kGroups =
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1024 "
    "data.max_prompt_length=512 data.max_response_length=1024 actor_rollout_ref.model.path=Qwen/Qwen3-8B "
    "actor_rollout_ref.actor.ppo_mini_batch_size=256 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 actor_rollout_ref.actor.use_kl_loss=True "
    "actor_rollout_ref.rollout.tensor_model_parallel_size=2 actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6 actor_rollout_ref.rollout.n=5 "
    "trainer.n_gpus_per_node=8 trainer.nnodes=1";

TEST(Verl, ReadsGroupsOfCompletions) {
  const Folder folder;
  const json r = report("--recipe " + folder.write("run.sh", kGroups + "\n") + " --gpu H100");
  const json& t = r.at("training");
  EXPECT_EQ(t.at("objective"), "grpo");
  EXPECT_EQ(t.at("sequence_length"), 1536);
  EXPECT_EQ(r.at("cluster").at("gpus"), 8);
  const json& plan = r.at("plans").at(0);
  EXPECT_EQ(plan.at("strategy").at("framework"), "fsdp");
  EXPECT_EQ(plan.at("strategy").at("micro_batch_size"), 8);
  EXPECT_EQ(plan.at("strategy").at("global_batch_size"), 1280);
  EXPECT_TRUE(r.at("recipes").at(0).at("unknown").empty());
}

TEST(Verl, PrintsItsAnswer) {
  const Folder folder;
  const std::string file = folder.write("run.sh", kGroups + "\n");
  EXPECT_THAT(in_process("--recipe " + file + " --gpu H100").out, HasSubstr("grpo by full fine-tuning"));
}

TEST(Verl, NamesWhatItDoesNotPlan) {
  const Folder folder;
  const std::string offloads = kGroups +
                               " actor_rollout_ref.actor.fsdp_config.param_offload=True "
                               "actor_rollout_ref.actor.use_dynamic_bsz=True";
  const json r = report("--recipe " + folder.write("run.sh", offloads + "\n") + " --gpu H100");
  EXPECT_EQ(r.at("recipes").at(0).at("not_planned").size(), 3U);
  const std::string megatron = folder.write("m.sh", kGroups + " actor_rollout_ref.actor.strategy=megatron\n");
  EXPECT_THAT(in_process("--recipe " + megatron + " --gpu H100").err, HasSubstr("Megatron-Core"));
}

}  // namespace
}  // namespace zplan::test
