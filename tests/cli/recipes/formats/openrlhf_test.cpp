// Commands of OpenRLHF as its own parsers read them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;

json planned(const std::string& script, const std::string& cluster = " --gpus 8 --gpu H100") {
  const Folder folder;
  return report("--recipe " + folder.write("run.sh", script) + cluster);
}

TEST(OpenRlhf, ReadsFlagsWithDots) {
  const json r = planned(
      "deepspeed --module openrlhf.cli.train_dpo --train.batch_size 256 --train.micro_batch_size 1 "
      "--model.model_name_or_path Qwen/Qwen3-8B --data.max_len 4096 --ds.zero_stage 3 "
      "--model.gradient_checkpointing_enable --adam.lr 5e-7 --ckpt.output_dir ./out\n");
  const json& t = r.at("training");
  EXPECT_EQ(t.at("objective"), "dpo");
  EXPECT_EQ(t.at("sequence_length"), 4096);
  const json& s = r.at("plans").at(0).at("strategy");
  EXPECT_EQ(s.at("zero_stage"), 3);
  EXPECT_EQ(s.at("micro_batch_size"), 1);
  EXPECT_EQ(s.at("gradient_accumulation_steps"), 32);
  EXPECT_EQ(s.at("activation_checkpointing"), "full");
  EXPECT_TRUE(r.at("recipes").at(0).at("unknown").empty());
}

// Releases up to 0.10: flags without dots, a batch of 128 and no checkpointing by default.
TEST(OpenRlhf, ReadsFlagsOfOlderReleases) {
  const json r = planned(
      "deepspeed --module openrlhf.cli.train_sft --pretrain Qwen/Qwen3-8B --max_len 2048 "
      "--micro_train_batch_size 2 --zero_stage 2 --lora_rank 32 --packing_samples --flash_attn\n");
  const json& t = r.at("training");
  EXPECT_EQ(t.at("method"), "lora");
  EXPECT_EQ(t.at("lora_rank"), 32);
  const json& s = r.at("plans").at(0).at("strategy");
  EXPECT_EQ(s.at("zero_stage"), 2);
  EXPECT_EQ(s.at("global_batch_size"), 128);
  EXPECT_EQ(s.at("activation_checkpointing"), "none");
}

TEST(OpenRlhf, ReadsTheCommandOfAHereDocument) {
  const json r = planned(
      "read -r -d '' training_commands <<EOF\nopenrlhf.cli.train_sft \\\n   --max_len 2048 \\\n"
      "   --pretrain Qwen/Qwen3-8B \\\n   --zero_stage 2 \\\n   --gradient_checkpointing\nEOF\n"
      "if [[ ${1} != \"slurm\" ]]; then\n    deepspeed --module $training_commands\nfi\n");
  EXPECT_EQ(r.at("plans").at(0).at("strategy").at("activation_checkpointing"), "full");
  EXPECT_EQ(r.at("model").at("name"), "Qwen/Qwen3-8B");
}

TEST(OpenRlhf, NamesWhatItDoesNotPlan) {
  const Folder folder;
  const std::string file = folder.write(
      "run.sh", "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --actor.num_gpus_per_node 8\n");
  EXPECT_THAT(in_process("--recipe " + file + " --gpus 8 --gpu H100").err, HasSubstr("not planned yet"));
}

}  // namespace
}  // namespace zplan::test
