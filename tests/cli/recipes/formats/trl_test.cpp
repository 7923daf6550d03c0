// TRL's configs, those of alignment-handbook and open-r1, and scripts that take TrainingArguments.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/recipes/formats/recipe_support.h"

namespace zplan::test::of_trl {
namespace {

using testing::HasSubstr;

const std::string kModel = "model_name_or_path: Qwen/Qwen3-8B\ndataset_name: d\nbf16: true\n";

json trained(const std::string& text, const std::string& name = "config.yaml",
             const std::string& options = {}) {
  return training_of(kModel + text, name, options);
}

// ModelConfig.dtype is float32 in TRL 1.16: that is what trains in plain PyTorch, and the base of adapters.
TEST(Trl, TheLoadedTypeIsWhatTrains) {
  EXPECT_EQ(trained("dtype: bfloat16\n").at("master_weights"), false);
  EXPECT_EQ(trained("torch_dtype: bfloat16\n").at("master_weights"), false);
  EXPECT_EQ(trained("dtype: auto\n").at("master_weights"), false);
  EXPECT_EQ(trained("dtype: float32\n").at("master_weights"), true);
  EXPECT_EQ(trained("").at("master_weights"), true);
  EXPECT_EQ(trained("use_peft: true\ndtype: bfloat16\n").at("master_weights"), false);
  EXPECT_EQ(trained("use_peft: true\n").at("master_weights"), true);
  EXPECT_EQ(trained("torch_dtype: null\n", "config.yaml", "--trainer trl@0.18,transformers@4.52")
                .at("master_weights"),
            true);
}

TEST(Trl, FsdpAndDeepSpeedMakeMasterWeights) {
  const Folder folder;
  const std::string file = folder.write("sft.yaml", kModel + "dtype: bfloat16\n");
  const std::string launch = folder.write(
      "accelerate.yaml",
      "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\nfsdp_config:\n  fsdp_version: 2\n"
      "  fsdp_reshard_after_forward: true\n");
  const json r = report("--recipe " + file + "," + launch + " --mem 80");
  EXPECT_EQ(r.at("training").at("master_weights"), true);
  EXPECT_EQ(r.at("training").at("framework"), "fsdp");
}

TEST(Trl, AdaptersHaveModelConfigsDefaults) {
  const json training = trained("use_peft: true\n");
  EXPECT_EQ(training.at("lora_rank"), 16);
  EXPECT_EQ(training.at("lora_dropout"), 0.05);
  EXPECT_EQ(training.at("lora_targets"), json({"q_proj", "v_proj"}));
}

// Releases that call the type torch_dtype store 4-bit values in it, later ones in bytes.
TEST(Trl, FourBitsAreStoredByTheRelease) {
  const std::string four = "use_peft: true\nload_in_4bit: true\nlora_target_modules: all-linear\n";
  EXPECT_EQ(trained(four + "torch_dtype: bfloat16\n").at("quant_storage"), "bf16");
  EXPECT_EQ(trained(four + "dtype: bfloat16\n").value("quant_storage", "uint8"), "uint8");
  EXPECT_EQ(trained(four + "dtype: bfloat16\nbnb_4bit_quant_storage: float16\n").at("quant_storage"), "fp16");
}

TEST(Trl, ObjectiveFollowsFromKeysAndPath) {
  const auto objective = [](const std::string& text, const std::string& name) {
    return trained("dtype: bfloat16\n" + text, name).value("objective", "sft");
  };
  EXPECT_EQ(objective("", "sft/config.yaml"), "sft");
  EXPECT_EQ(objective("", "recipes/zephyr/dpo/config_full.yaml"), "dpo");
  EXPECT_EQ(objective("beta: 0.05\n", "recipes/orpo/config_full.yaml"), "orpo");
  EXPECT_EQ(objective("beta: 0.1\nmax_prompt_length: 512\n", "configs/config_iter1.yaml"), "dpo");
  EXPECT_EQ(objective("loss_type: apo_zero\n", "configs/config.yaml"), "dpo");
  EXPECT_EQ(objective("loss_type: [sigmoid, sft]\n", "configs/config.yaml"), "dpo");
  EXPECT_EQ(objective("beta: 2.0\ngamma_beta_ratio: 0.5\n", "training_configs/llama.yaml"), "simpo");
  EXPECT_EQ(objective("desirable_weight: 1.0\n", "configs/config.yaml"), "kto");
  EXPECT_EQ(objective("center_rewards_coefficient: 0.01\n", "configs/config.yaml"), "reward");
  EXPECT_EQ(objective("reward_funcs: [accuracy]\nmax_completion_length: 512\n", "configs/config.yaml"),
            "grpo");
  EXPECT_EQ(objective("packing: true\n", "configs/config.yaml"), "sft");
  EXPECT_EQ(objective("teacher_model_name_or_path: Qwen/Qwen3-32B\n", "config.yaml"), "gkd");
  EXPECT_THAT(refused(kModel + "x: 1\n", "recipes/xpo/config.yaml"), HasSubstr("xpo is not planned yet"));
}

// Half of the batches are generated unless lmbda says otherwise; the divergence is by beta.
TEST(Trl, ReadsGkd) {
  const std::string taught = "dtype: bfloat16\nteacher_model_name_or_path: Qwen/Qwen3-14B\n";
  const json training = trained(taught + "beta: 0.0\n", "gkd/config.yaml");
  EXPECT_EQ(training.at("distillation").at("teacher"), "Qwen/Qwen3-14B");
  EXPECT_EQ(training.at("distillation").at("divergence"), "forward");
  EXPECT_EQ(training.at("rollout").at("completion_length"), 128);
  EXPECT_FALSE(trained(taught + "lmbda: 0.0\n", "gkd/config.yaml").contains("rollout"));
}

TEST(Trl, CommandsSayTheObjective) {
  const json training =
      training_of("trl kto --model_name_or_path Qwen/Qwen3-8B --dtype bfloat16 --dataset_name d\n", "dpo.sh");
  EXPECT_EQ(training.at("objective"), "kto");
}

// 0.18 serves with vLLM and has a divergence of 0.04, 1.16 neither.
TEST(Trl, GrpoByTheReleaseOfItsKeys) {
  const std::string grpo = "num_generations: 8\nmax_completion_length: 512\nuse_vllm: true\n";
  const json older = trained(grpo + "torch_dtype: bfloat16\nmax_prompt_length: 256\n");
  EXPECT_EQ(older.at("rollout").at("engine"), "server");
  EXPECT_EQ(older.at("reference"), "copy");
  EXPECT_EQ(older.at("sequence_length"), 768);
  const json newer = trained(grpo + "dtype: bfloat16\nvllm_gpu_memory_utilization: 0.5\n");
  EXPECT_EQ(newer.at("rollout").at("engine"), "colocate");
  EXPECT_EQ(newer.at("rollout").at("vllm_memory"), 0.5);
  EXPECT_EQ(newer.at("reference"), nullptr);
}

TEST(Trl, NearestOptimizersAreNamed) {
  const json r = planned_as(kModel + "dtype: bfloat16\noptim: rmsprop\n", "sft.yaml");
  EXPECT_EQ(r.at("training").at("optimizer"), "sgd-momentum");
  EXPECT_THAT(not_planned(r), HasSubstr("optim"));
  EXPECT_EQ(trained("dtype: bfloat16\noptim: adamw_torch_4bit\n").at("optimizer"), "adamw4bit");
  EXPECT_THAT(refused(kModel + "optim: ademamix\n", "sft.yaml"), HasSubstr("optim: \"ademamix\""));
  EXPECT_EQ(trained("use_peft: true\noptim: ademamix\n").at("optimizer"), "adamw32bit");
}

TEST(Trl, ReadsOlderNames) {
  const json training = trained("dtype: bfloat16\nuse_flash_attention_2: true\nuse_liger: true\n");
  EXPECT_EQ(training.at("attention"), "flash");
  EXPECT_EQ(training.at("kernels"), "liger");
  EXPECT_EQ(trained("dtype: bfloat16\nattn_implementation: kernels-community/flash-attn\n").at("attention"),
            "flash");
}

// Reentrant checkpoints keep their inputs longer.
TEST(Trl, ReentrantCheckpointsAreReadAndNotADefault) {
  const auto memory = [](const std::string& text) {
    return planned_as(kModel + "dtype: bfloat16\ngradient_checkpointing: true\n" + text, "sft.yaml")
        .at("plans")
        .at(0)
        .at("memory")
        .at("required")
        .get<double>();
  };
  const std::string kwargs = "gradient_checkpointing_kwargs: {use_reentrant: ";
  EXPECT_EQ(memory(kwargs + "false}\n"), memory(""));
  EXPECT_NE(memory(kwargs + "true}\n"), memory(""));
}

TEST(Trl, WhatTrainsNothingIsSaid) {
  EXPECT_THAT(refused(kModel + "num_generations: 8\npass_rate_min: 0.2\n", "filter.yaml"),
              HasSubstr("filters data by how often a model is right"));
}

TEST(Scripts, TakeOptionsOfTheirOwn) {
  const std::string medical =
      "torchrun --nproc_per_node 2 training/supervised_finetuning.py --model_name_or_path Qwen/Qwen3-8B "
      "--train_file_dir ./data --use_peft True --target_modules all --lora_rank 4 --torch_dtype bfloat16 "
      "--bf16 "
      "--flash_attn True --model_max_length 512\n";
  const json training = training_of(medical, "run.sh");
  EXPECT_EQ(training.at("method"), "lora");
  EXPECT_EQ(training.at("lora_rank"), 4);
  EXPECT_EQ(training.at("attention"), "flash");
  EXPECT_EQ(training.at("sequence_length"), 512);
  EXPECT_EQ(training.at("master_weights"), false);
  const std::string rewards =
      "python training/reward_modeling.py --model_name_or_path Qwen/Qwen3-8B --train_file_dir ./data --bf16 "
      "--torch_dtype bfloat16 --max_source_length 1024 --max_target_length 256\n";
  const json reward = training_of(rewards, "run.sh");
  EXPECT_EQ(reward.at("objective"), "reward");
  EXPECT_EQ(reward.at("sequence_length"), 1280);
}

}  // namespace
}  // namespace zplan::test::of_trl
