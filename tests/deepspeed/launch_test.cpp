#include "planner/frameworks/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grid.h"

namespace zplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Strategy kPlain{.zero_stage = 3, .micro_batch_size = 2, .gradient_accumulation_steps = 4};

Launch launch(std::int64_t gpus, std::int64_t nodes, const Training& training = {},
              const Strategy& strategy = kPlain) {
  return launch_lines(plan_of(strategy), question_of(llama_8b(), gpus, nodes, training));
}

TEST(Launch, OneNode) {
  const Launch lines = launch(8, 1);
  EXPECT_EQ(lines.deepspeed, "deepspeed --num_gpus 8 train.py --deepspeed ds_config.json");
  EXPECT_EQ(lines.torchrun, "torchrun --nproc_per_node 8 train.py --deepspeed ds_config.json");
  EXPECT_EQ(
      lines.accelerate,
      "accelerate launch --use_deepspeed --deepspeed_config_file ds_config.json --num_processes 8 train.py");
  EXPECT_THAT(lines.swift, AllOf(HasSubstr("NPROC_PER_NODE=8 swift sft --model meta-llama/Llama-3.1-8B"),
                                 HasSubstr("--deepspeed ds_config.json"), HasSubstr("--tuner_type full"),
                                 Not(HasSubstr("NNODES"))));
}

TEST(Launch, SeveralNodes) {
  const Launch lines = launch(16, 2);
  EXPECT_THAT(lines.deepspeed, HasSubstr("--hostfile hostfile --num_nodes 2 --num_gpus 8"));
  EXPECT_THAT(lines.torchrun,
              AllOf(HasSubstr("--nnodes 2 --node_rank $NODE_RANK"), HasSubstr("--nproc_per_node 8")));
  EXPECT_THAT(lines.accelerate,
              AllOf(HasSubstr("--num_processes 16 --num_machines 2 --machine_rank $NODE_RANK")));
  EXPECT_THAT(lines.swift, HasSubstr("NPROC_PER_NODE=8 NNODES=2 NODE_RANK=$NODE_RANK"));
}

TEST(Launch, SwiftSaysWhatTheConfigSays) {
  // The Trainer stops where its arguments and a config without "auto" disagree.
  const Launch lines = launch(8, 1);
  EXPECT_THAT(lines.swift, AllOf(HasSubstr("--per_device_train_batch_size 2 --gradient_accumulation_steps 4"),
                                 HasSubstr("--learning_rate 1e-05 --weight_decay 0.01")));
}

TEST(Launch, SwiftKnowsTheMethod) {
  EXPECT_THAT(launch(8, 1, {.method = Method::lora, .lora_rank = 32}).swift,
              HasSubstr("--tuner_type lora --lora_rank 32 --lora_dropout 0 --target_modules all-linear"));
  EXPECT_THAT(launch(8, 1, {.method = Method::lora, .lora_targets = {{"q_v"}}}).swift,
              HasSubstr("--target_modules q_proj v_proj"));
  EXPECT_THAT(
      launch(8, 1, {.method = Method::qlora, .quantization = Quantization::nf4_double}).swift,
      HasSubstr(
          "--quant_method bnb --quant_bits 4 --bnb_4bit_quant_type nf4 --bnb_4bit_use_double_quant true"));
  EXPECT_THAT(launch(8, 1, {.method = Method::qlora, .quantization = Quantization::int8}).swift,
              AllOf(HasSubstr("--quant_bits 8"), Not(HasSubstr("nf4"))));
}

/// The line sets everything that the plan counts, whatever ms-swift's own defaults are.
TEST(Launch, SwiftSaysWhatThePlanCounts) {
  EXPECT_THAT(launch(8, 1, {.method = Method::lora, .lora_dropout = 0.05}).swift,
              HasSubstr("--lora_dropout 0.05"));
  EXPECT_THAT(launch(8, 1).swift, Not(HasSubstr("--lora_dropout")));
  Plan plan = plan_of({.zero_stage = 3, .layout = {.shard = 8}});
  Question question = question_of(llama_8b(), 8, 1, {.method = Method::lora});
  EXPECT_THAT(launch_lines(plan, question).swift, Not(HasSubstr("use_reentrant")));
  question.training.deepspeed = {0, 19, 2};
  EXPECT_THAT(launch_lines(plan, question).swift,
              HasSubstr(R"(--gradient_checkpointing_kwargs '{"use_reentrant": true}')"));
  plan.strategy.zero.gradient_clipping = 0.5;
  EXPECT_THAT(launch_lines(plan, question).swift, HasSubstr("--max_grad_norm 0.5"));
}

TEST(Launch, AConfigInMsSwiftsStyleIsStartedByMsSwift) {
  const Launch lines = launch(8, 1);
  EXPECT_EQ(launcher(lines, ConfigStyle::plain).name, "deepspeed");
  EXPECT_EQ(launcher(lines, ConfigStyle::hf_auto).name, "deepspeed");
  EXPECT_EQ(launcher(lines, ConfigStyle::ms_swift).name, "swift");
  EXPECT_EQ(launcher(lines, ConfigStyle::ms_swift).line, lines.swift);
  EXPECT_EQ(launcher(lines, ConfigStyle::plain).line, lines.deepspeed);
}

TEST(Launch, OtherFrameworksAreStartedByAccelerate) {
  Plan plan = plan_of({.zero_stage = 3, .layout = {.shard = 8}});
  plan.framework = Framework::fsdp;
  const Launch lines = launch_lines(plan, question_of(llama_8b(), 8, 1));
  EXPECT_EQ(launcher(lines, ConfigStyle::plain).name, "accelerate");
  EXPECT_EQ(launcher(lines, ConfigStyle::plain).line, lines.accelerate);
}

TEST(Launch, WordsAreQuotedForTheShell) {
  Question question = question_of(llama_8b(), 8, 1);
  question.model.name = "it's; a model";
  const Launch lines = launch_lines(plan_of(kPlain), question, "my config.json");
  EXPECT_THAT(lines.swift, HasSubstr("--model 'it'\\''s; a model'"));
  EXPECT_THAT(lines.torchrun, HasSubstr("--deepspeed 'my config.json'"));
}

TEST(Launch, InferredModelsAreAPlaceholder) {
  Question question = question_of(llama_8b(), 8, 1);
  question.model.source = ModelSource::size;
  EXPECT_THAT(launch_lines(plan_of(kPlain), question).swift, HasSubstr("--model MODEL "));
}

}  // namespace
}  // namespace zplan::testing
