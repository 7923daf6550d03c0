// --recipe and --recipe-out: trainers' configs as options, and back.

#include "cli/recipes/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <random>

#include "cli/recipes/recipe_text.h"
#include "models/base/error.h"
#include "tests/cli/support.h"
#include "tests/mutated.h"

namespace zplan::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string recipe(const std::string& name) { return ZPLAN_SOURCE "/tests/reference/recipes/" + name; }

json planned(const std::string& name, const std::string& options) {
  return report("--recipe " + recipe(name) + " " + options);
}

/// Returns the options that a key of the first recipe gave: {"--lora-rank": "32"}.
json said(const json& report, const std::string& key) {
  for (const json& each : report.at("recipes").at(0).at("settings"))
    if (each.at("key") == key) return each.at("options");
  return nullptr;
}

std::string error_of(const std::string& text, const std::string& options = {}) {
  const Folder folder;
  const Result result =
      in_process("--recipe " + folder.write("recipe.yaml", text) + " --gpus 1 --mem 80 " + options);
  EXPECT_EQ(result.status, kBadInput) << text;
  EXPECT_EQ(result.out, "") << text;
  return result.err;
}

TEST(Recipe, OfAxolotl) {
  const json r = planned("axolotl_qlora.yaml", "--gpus 2 --mem 80");
  EXPECT_EQ(r.at("recipes").at(0).at("format"), "axolotl");
  EXPECT_EQ(r.at("model").at("name"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(r.at("training").at("method"), "qlora");
  EXPECT_EQ(r.at("training").at("quantization"), "nf4-double");
  EXPECT_EQ(r.at("training").at("lora_rank"), 32);
  EXPECT_EQ(r.at("training").at("lora_targets"), json({"all-linear"}));
  EXPECT_EQ(r.at("training").at("optimizer"), "paged_adamw8bit");
  EXPECT_EQ(r.at("training").at("sequence_length"), 4096);
  ASSERT_EQ(r.at("plans").size(), 1U);
  const json& plan = r.at("plans").at(0);
  EXPECT_EQ(plan.at("id"), "ddp");
  EXPECT_EQ(plan.at("strategy").at("micro_batch_size"), 8);
  EXPECT_EQ(plan.at("strategy").at("gradient_accumulation_steps"), 4);
  EXPECT_THAT(r.at("recipes").at(0).at("unknown"), IsEmpty());
  EXPECT_EQ(r.at("recipes").at(0).at("irrelevant").at(0), "lora_alpha");
}

TEST(Recipe, SaysTheSameAsItsOptions) {
  const json r = planned("llama_factory_lora.yaml", "--gpus 2 --mem 80");
  const json typed = report(
      "--model Qwen/Qwen2.5-7B-Instruct --gpus 2 --mem 80 --method lora --lora-rank 16 --lora-targets "
      "all-linear "
      "--seq 4096 --micro-batch 4 --grad-accum 8 --precision bf16 --framework torch --trainer llama-factory");
  EXPECT_EQ(r.at("plans").at(0).at("memory"), typed.at("plans").at(0).at("memory"));
  EXPECT_EQ(r.at("training"), typed.at("training"));
  EXPECT_EQ(r.at("trainer_defaults"), typed.at("trainer_defaults"));
}

TEST(Recipe, ReadsTheDeepSpeedConfigBesideIt) {
  const json r = planned("llama_factory_full.yaml", "--gpus 8 --mem 80");
  EXPECT_EQ(said(r, "deepspeed"),
            json({{"--framework", "deepspeed"}, {"--ds-config", recipe("ds_stage3.json")}}));
  ASSERT_EQ(r.at("plans").size(), 1U);
  EXPECT_EQ(r.at("plans").at(0).at("id"), "zero3");
  EXPECT_EQ(r.at("training").at("objective"), "dpo");
}

TEST(Recipe, OfTrl) {
  const json r = planned("trl_sft.yaml", "--gpus 1 --mem 24");
  EXPECT_EQ(r.at("recipes").at(0).at("format"), "trl");
  EXPECT_EQ(r.at("training").at("method"), "qlora");
  EXPECT_EQ(r.at("training").at("attention"), "flash");
  EXPECT_EQ(r.at("training").at("sequence_length"), 8192);
  EXPECT_EQ(said(r, "bf16"), json({{"--precision", "bf16"}}));  // its default
}

TEST(Recipe, OfTrlsGrpo) {
  const Folder folder;
  const std::string file = folder.write("grpo.yaml",
                                        "model_name_or_path: Qwen/Qwen3-8B\ndataset_name: d\nuse_peft: true\n"
                                        "loss_type: dapo\nbeta: 0.04\nnum_generations: 4\n"
                                        "max_completion_length: 1536\nuse_vllm: true\n"
                                        "vllm_gpu_memory_utilization: 0.4\nvllm_enable_sleep_mode: true\n"
                                        "per_device_train_batch_size: 4\n");
  const json training = report("--recipe " + file + " --gpus 8 --mem 80").at("training");
  EXPECT_EQ(training.at("objective"), "grpo");
  EXPECT_EQ(training.at("reference"), "adapters-off");
  EXPECT_EQ(training.at("sequence_length"), 1536 + 512);
  const json& rollout = training.at("rollout");
  EXPECT_EQ(rollout.at("engine"), "colocate");
  EXPECT_EQ(rollout.at("generations"), 4);
  EXPECT_EQ(rollout.at("completion_length"), 1536);
  EXPECT_EQ(rollout.at("iterations"), 1);
  EXPECT_EQ(rollout.at("vllm_memory"), 0.4);
  EXPECT_EQ(rollout.at("vllm_sleep"), 2);
}

// The script's value model is another copy of the reward model, and PPOConfig's checkpointing does nothing.
TEST(Recipe, OfTrlsPpo) {
  const Folder folder;
  const std::string file = folder.write(
      "ppo.yaml",
      "sft_model_path: Qwen/Qwen2.5-1.5B\nreward_model_path: Qwen/Qwen2.5-0.5B\ndataset_name: d\n"
      "num_ppo_epochs: 2\nnum_mini_batches: 2\nlocal_rollout_forward_batch_size: 4\nresponse_length: 128\n"
      "gradient_checkpointing: true\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n"
      "deepspeed: ds_z2_config.json\n");
  static_cast<void>(folder.write(
      "ds_z2_config.json",
      R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "gradient_accumulation_steps": 4})"));
  const json r = report("--recipe " + file + " --gpus 2 --mem 80");
  const json& training = r.at("training");
  EXPECT_EQ(training.at("objective"), "ppo");
  EXPECT_EQ(training.at("reference"), "copy");
  const json& rollout = training.at("rollout");
  EXPECT_EQ(rollout.at("engine"), "trainer");
  EXPECT_EQ(rollout.at("completion_length"), 128);
  EXPECT_EQ(rollout.at("iterations"), 2);
  EXPECT_EQ(rollout.at("mini_batches"), 2);
  EXPECT_EQ(rollout.at("rollout_batch"), 4);
  EXPECT_EQ(rollout.at("value_model"), rollout.at("reward_model"));
  EXPECT_NE(rollout.at("value_model"), r.at("model").at("name"));
  EXPECT_EQ(r.at("plans").at(0).at("strategy").at("activation_checkpointing"), "none");
}

TEST(Recipe, OfTrainingArguments) {
  const json r = planned("training_arguments.json", "--model 8B --gpus 8 --mem 80");
  EXPECT_EQ(r.at("recipes").at(0).at("format"), "transformers");
  ASSERT_EQ(r.at("plans").size(), 1U);
  EXPECT_EQ(r.at("plans").at(0).at("id"), "fsdp");
  EXPECT_EQ(said(r, "per_device_eval_batch_size"), json({{"--eval-batch", "4"}}));
}

TEST(Recipe, OfTorchtuneKnowsTheModelByItsBuilder) {
  const json r = planned("torchtune_lora.yaml", "--gpus 2 --mem 80");
  EXPECT_EQ(r.at("model").at("name"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(r.at("plans").at(0).at("id"), "fsdp");
  EXPECT_EQ(r.at("training").at("lora_targets"),
            json({"q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}));
  EXPECT_EQ(planned("torchtune_lora.yaml", "--gpus 1 --mem 80").at("plans").at(0).at("id"), "ddp");
}

TEST(Recipe, OfSwiftAsFileAndAsCommandLine) {
  const json file = planned("swift_sft.yaml", "--gpus 2 --mem 80");
  EXPECT_EQ(file.at("plans").at(0).at("id"), "zero2");
  EXPECT_EQ(file.at("training").at("lora_rank"), 8);
  const json script = planned("swift_sft.sh", "--mem 80");
  EXPECT_EQ(script.at("cluster").at("gpus"), 4);
  EXPECT_EQ(script.at("plans").at(0).at("id"), "zero3");
  EXPECT_EQ(script.at("training").at("method"), "full");
  EXPECT_EQ(script.at("plans").at(0).at("strategy").at("micro_batch_size"), 4);
}

TEST(Recipe, OfAccelerateSaysTheClusterOfAnother) {
  const json r = report("--recipe " + recipe("trl_sft.yaml") + "," + recipe("accelerate_fsdp.yaml") +
                        " --mem 24 --quant-storage bf16");
  EXPECT_EQ(r.at("cluster").at("gpus"), 8);
  EXPECT_EQ(r.at("plans").at(0).at("id"), "fsdp");
  EXPECT_EQ(r.at("recipes").size(), 2U);
  const json alone = planned("accelerate_deepspeed.yaml", "--model 8B --mem 80");
  EXPECT_EQ(alone.at("plans").at(0).at("id"), "zero2");
  EXPECT_EQ(alone.at("plans").at(0).at("strategy").at("gradient_accumulation_steps"), 4);
}

TEST(Recipe, WhatIsTypedWins) {
  const json r = planned("axolotl_qlora.yaml", "--gpus 2 --mem 80 --micro-batch 1 --method full");
  EXPECT_EQ(r.at("plans").at(0).at("strategy").at("micro_batch_size"), 1);
  EXPECT_EQ(r.at("training").at("method"), "full");
  for (const json& each : r.at("recipes").at(0).at("settings")) {
    if (each.at("key") == "micro_batch_size") {
      EXPECT_EQ(each.at("unused"), "--micro-batch is given");
    } else if (each.at("key") == "lora_r") {
      EXPECT_EQ(each.at("unused"), "does nothing with --method full");
    }
  }
  EXPECT_EQ(planned("llama_factory_full.yaml", "--gpus 8 --mem 80 --zero 2")
                .at("plans")
                .at(0)
                .at("strategy")
                .at("zero_stage"),
            2);
}

TEST(Recipe, LeavesOpenWhatFitSolvesFor) {
  for (const char* solve : {"", " --solve micro-batch", " --solve sequence", " --solve memory"}) {
    const Result result = in_process("fit --recipe " + recipe("swift_sft.yaml") +
                                     " --gpus 2 --gpu A100-SXM-80GB --json" + solve);
    EXPECT_EQ(result.status, kFits) << solve << result.err;
  }
}

TEST(Recipe, EpochsCountWithSamples) {
  const json r = planned("axolotl_qlora.yaml", "--gpus 2 --mem 80 --samples 1000");
  // 2000 samples by 64 of a step
  EXPECT_EQ(r.at("plans").at(0).at("run").at("steps"), 32);
}

TEST(Recipe, NamesWhatIsNotUsed) {
  const Folder folder;
  const std::string file =
      folder.write("recipe.yml",
                   "base_model: Qwen/Qwen3-8B\nlora_mlp_kernel: true\nseqence_len: 4096\n"
                   "output_dir: out\ntorch_compile: false\n");
  const json r = report("--recipe " + file + " --gpus 1 --mem 80");
  const json& read = r.at("recipes").at(0);
  EXPECT_EQ(read.at("not_planned").size(), 1U);
  EXPECT_EQ(read.at("not_planned").at(0).at("key"), "lora_mlp_kernel");
  EXPECT_EQ(read.at("unknown").at(0).at("key"), "seqence_len");
  EXPECT_EQ(read.at("unknown").at(0).at("line"), 3);
  EXPECT_EQ(read.at("irrelevant"), json({"output_dir"}));
  EXPECT_THAT(in_detail("--recipe " + file + " --mem 80").out,
              testing::AllOf(HasSubstr("unknown keys, to axolotl as to zplan: seqence_len (line 3)"),
                             HasSubstr("it does not say the cluster: --gpus")));
}

TEST(Recipe, SaysWhichOfTwoKeysCounts) {
  const Folder folder;
  const std::string file =
      folder.write("recipe.yaml", "base_model: Qwen/Qwen3-8B\nmicro_batch_size: 2\nmicro_batch_size: 4\n");
  const json r = report("--recipe " + file + " --gpus 1 --mem 80");
  EXPECT_EQ(r.at("plans").at(0).at("strategy").at("micro_batch_size"), 4);
  EXPECT_EQ(r.at("recipes").at(0).at("settings").back().at("unused"), "line 3 says it again");
}

TEST(Recipe, BadValuesNameFileLineAndKey) {
  const std::string model = "base_model: Qwen/Qwen3-8B\n";
  EXPECT_THAT(error_of(model + "micro_batch_size: two\n"),
              HasSubstr("recipe.yaml:2: micro_batch_size: \"two\"; accepted: a whole number"));
  EXPECT_THAT(error_of(model + "\nbf16: maybe\n"),
              HasSubstr("recipe.yaml:3: bf16: \"maybe\"; accepted: true, auto, full, false"));
  EXPECT_THAT(error_of(model + "rl: ppo\n"), HasSubstr("recipe.yaml:2: rl: \"ppo\"; accepted: dpo"));
  EXPECT_THAT(error_of(model + "optimizer: adamw_tourch\n"), HasSubstr("recipe.yaml:2: optimizer: "));
  EXPECT_THAT(error_of("base_model: nobody/knows\n"), HasSubstr("recipe.yaml:1: base_model (--model): "));
  EXPECT_THAT(error_of("base_model: [Qwen/Qwen3-8B\n"), HasSubstr("not YAML"));
  EXPECT_THAT(error_of("a: 1\n"), HasSubstr("its keys are those of no trainer"));
  EXPECT_THAT(error_of("- a\n- b\n"), HasSubstr("not a recipe"));
  EXPECT_THAT(error_of(""), HasSubstr("not a recipe"));
  EXPECT_THAT(error_of("base_model: &a [*a]\n"), HasSubstr("an alias of nothing"));
}

/// The message of `read_recipe`; empty where it reads the text.
std::string refusal_of(const std::string& file, const std::string& text) {
  try {
    static_cast<void>(read_recipe(text, file, {.gpus = 1, .has_model = true, .given = {}}));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(Recipe, SaysWhatACommandDoesThatTrainsNothing) {
  EXPECT_EQ(
      refusal_of("run.sh", "# text\n\nCUDA_VISIBLE_DEVICES=0 \\\nswift infer \\\n  --model Qwen/Qwen3-8B\n"),
      "run.sh:4: swift infer runs a model, it trains nothing; accepted: a command that trains (swift pt, "
      "sft, rlhf)");
  for (const char* command :
       {"swift export", "swift merge_lora", "megatron export", "trl vllm-serve", "vllm serve",
        "/opt/bin/llamafactory-cli export", "lm_eval", "python -m swift.cli.deploy"})
    EXPECT_THAT(refusal_of("run.sh", std::string(command) + " --model Qwen/Qwen3-8B\n"),
                HasSubstr("it trains nothing; accepted: "))
        << command;
  for (const char* command : {"swift sft", "trl sft", "llamafactory-cli train", "python3 swift/cli/sft.py"})
    EXPECT_THAT(refusal_of("run.sh", std::string(command) + " --model Qwen/Qwen3-8B\n"), IsEmpty())
        << command;
}

TEST(Recipe, ReadsCopiesPatternsAndOptimizersOfOthers) {
  const Folder folder;
  const std::string file =
      folder.write("recipe.yaml",
                   "base_model: NousResearch/Llama-3.2-1B\nadapter: lora\noptimizer: adamw_torch_8bit\n"
                   "lora_target_modules: 'model.layers.[\\d]+.(mlp|self_attn).(up|down|q)_proj'\n");
  const json r = report("--recipe " + file + " --gpus 1 --mem 80");
  EXPECT_EQ(r.at("model").at("name"), "NousResearch/Llama-3.2-1B");
  EXPECT_EQ(r.at("training").at("optimizer"), "adamw8bit");
  EXPECT_EQ(r.at("training").at("lora_targets"), json({"up_proj", "down_proj", "q_proj"}));
  EXPECT_EQ(r.at("recipes").at(0).at("not_planned").size(), 3U);
}

/// "--quantization" of a recipe that is planned for one GPU, and the model's name.
std::pair<std::string, std::string> packed_by(const std::string& text) {
  const Folder folder;
  const json r = report("--recipe " + folder.write("recipe.yaml", text) + " --gpus 1 --mem 80");
  EXPECT_EQ(r.at("training").at("method"), "qlora") << text;
  return {r.at("training").at("quantization"), r.at("model").at("name")};
}

TEST(Recipe, ReadsWhoPacksTheWeights) {
  using testing::Pair;
  const std::string factory = "finetuning_type: lora\nlora_target: all\nmodel_name_or_path: Qwen/Qwen2.5-7B";
  EXPECT_THAT(packed_by(factory + "\nquantization_bit: 4\nquantization_method: hqq\n"),
              Pair("hqq", "Qwen/Qwen2.5-7B"));
  EXPECT_THAT(packed_by(factory + "\nquantization_bit: 4\nquantization_method: bnb\n"),
              Pair("nf4-double", "Qwen/Qwen2.5-7B"));
  // LLaMA-Factory ignores quantization_bit where the weights are packed already.
  EXPECT_THAT(packed_by(factory + "-GPTQ-Int4\nquantization_bit: 8\n"), Pair("gptq-int4", "Qwen/Qwen2.5-7B"));
  EXPECT_THAT(packed_by(factory + "-AWQ\n"), Pair("awq", "Qwen/Qwen2.5-7B"));
  const std::string axolotl = "adapter: lora\nlora_target_linear: true\nbase_model: Qwen/Qwen2.5-7B";
  EXPECT_THAT(packed_by(axolotl + "\ngptq: true\n"), Pair("gptq-int4", "Qwen/Qwen2.5-7B"));
  EXPECT_THAT(packed_by(axolotl + "-GPTQ-Int8\ngptq: true\n"), Pair("gptq-int8", "Qwen/Qwen2.5-7B"));
  EXPECT_THAT(packed_by(axolotl + "\npeft:\n  backend: torchao\n  weight_dtype: int8\n"),
              Pair("torchao-int8", "Qwen/Qwen2.5-7B"));
  EXPECT_THAT(packed_by("tuner_type: lora\nquant_method: hqq\nquant_bits: 4\nmodel: Qwen/Qwen2.5-7B\n"),
              Pair("hqq", "Qwen/Qwen2.5-7B"));
  EXPECT_THAT(packed_by("use_peft: true\nlora_r: 8\nmodel_name_or_path: Qwen/Qwen2.5-7B-AWQ\n"),
              Pair("awq", "Qwen/Qwen2.5-7B"));
}

TEST(Recipe, ReadsWhoPackedAModelsFolder) {
  const Folder folder;
  const std::string packing =
      R"("quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"})";
  folder.write(
      "model/config.json",
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, )"
      R"("intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000, )" +
          packing + "}");
  const std::string file =
      folder.write("recipe.yaml", "base_model: model\nadapter: lora\nlora_target_linear: true\n");
  const json r = report("--recipe " + file + " --gpus 1 --mem 80");
  EXPECT_EQ(r.at("training").at("method"), "qlora");
  EXPECT_EQ(r.at("training").at("quantization"), "nf4");
}

// What is packed is read as every other JSON: bounded, and no pipe.
TEST(Recipe, AModelsConfigThatCannotBeReadIsNamed) {
  const Folder folder;
  const std::string lora = "adapter: lora\nbase_model: ./d\n";
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  folder.write("d/config.json", R"({"quantization_config": {"a": )" + deep + "}}");
  const auto refusal = [&] {
    return in_process("--recipe " + folder.write("recipe.yaml", lora) + " --gpus 1 --mem 80").err;
  };
  EXPECT_THAT(refusal(), HasSubstr("nested deeper than 64 levels"));
  folder.write("d/config.json", R"({"quantization_config": {"a": ")" + std::string(1 << 20, 'x') + "\"}}");
  EXPECT_LT(refusal().size(), 1000U);
  std::filesystem::remove(folder.path("d/config.json"));
  ASSERT_EQ(::mkfifo(folder.path("d/config.json").c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("is a pipe or a socket"));
}

/// Packing by another library is planned as bitsandbytes' of no fewer bits, and named.
TEST(Recipe, NamesPackingThatIsPlannedAsAnothers) {
  const Folder folder;
  const std::string factory = "finetuning_type: lora\nlora_target: all\nmodel_name_or_path: Qwen/Qwen2.5-7B";
  for (const auto& [packing, note] :
       {std::pair{"\nquantization_bit: 8\nquantization_method: eetq\n", "eetq of 8 bits"},
        std::pair{"\nquantization_bit: 3\nquantization_method: hqq\n", "hqq of 3 bits"}}) {
    const json planned =
        report("--recipe " + folder.write("recipe.yaml", factory + packing) + " --gpus 1 --mem 80");
    EXPECT_EQ(planned.at("training").at("quantization"), "int8") << packing;
    EXPECT_THAT(planned.at("recipes").at(0).at("not_planned").dump(), HasSubstr(note));
  }
}

TEST(Recipe, RefusesPackingThatIsNotPlanned) {
  const std::string factory = "finetuning_type: lora\nlora_target: all\nmodel_name_or_path: Qwen/Qwen2.5-7B";
  EXPECT_THAT(
      error_of(factory + "-GGUF\n"),
      HasSubstr("recipe.yaml:3: model_name_or_path: \"Qwen/Qwen2.5-7B-GGUF\"; accepted: models in 16 bits"));
  const std::string full =
      "finetuning_type: full\nlora_target: all\nmodel_name_or_path: Qwen/Qwen2.5-7B-FP8\n";
  EXPECT_THAT(error_of(full), HasSubstr("accepted: models in 16 bits"));
  EXPECT_THAT(error_of("finetuning_type: full\nlora_target: all\nmodel_name_or_path: Qwen/Qwen2.5-7B-AWQ\n"),
              HasSubstr("its weights are packed; accepted: with LoRA adapters"));
  const std::string axolotl = "adapter: lora\nbase_model: Qwen/Qwen2.5-7B\n";
  EXPECT_THAT(error_of(axolotl + "peft:\n  backend: torchao\n  weight_dtype: int4\n"),
              HasSubstr("peft.weight_dtype: \"int4\" with peft.backend torchao; accepted: int8"));
  EXPECT_THAT(error_of(axolotl + "model_quantization_config: Mxfp4Config\n"),
              HasSubstr("recipe.yaml:3: model_quantization_config: \"Mxfp4Config\"; accepted: without it"));
  EXPECT_THAT(error_of("tuner_type: lora\nmodel: Qwen/Qwen2.5-7B\nquant_method: vptq\nquant_bits: 4\n"),
              HasSubstr("accepted: with bnb, hqq, eetq, quanto, fp8"));
}

TEST(Recipe, DeepNestingAndManyAliasesEnd) {
  std::string deep = "base_model: ";
  for (int i = 0; i < 5000; ++i) deep += '[';
  EXPECT_THAT(error_of(deep), HasSubstr("recipe.yaml:1"));
  std::string laughs = "base_model: Qwen/Qwen3-8B\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) laughs += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    laughs += "]\n";
  }
  EXPECT_THAT(error_of(laughs), HasSubstr("too many values"));
}

// A fixed seed: the same bytes every time. Whatever is read can be changed, and what was changed is read
// again.
TEST(Recipe, MutatedEndsInARecipeOrAnInputError) {
  const std::vector<std::string> words{"-",  "0",  ": ",   "null", "true",        "'",  "[",     "]",
                                       "{",  "}",  ",",    "*a",   "&a ",         "#",  "\\",    "\n",
                                       "  ", "|",  ">",    "!!",   "---",         "\t", "1e300", "--",
                                       "_",  "0x", "<<: ", "1:3",  "\xEF\xBB\xBF"};
  std::vector<std::string> texts;
  for (const char* name : {"axolotl_qlora.yaml", "llama_factory_lora.yaml", "trl_sft.yaml",
                           "torchtune_lora.yaml", "swift_sft.sh", "training_arguments.json",
                           "accelerate_fsdp.yaml", "swift_megatron.sh", "megatron_lm.sh"})
    texts.push_back(read_text(recipe(name)));
  std::mt19937 random(20'261'124);
  int read = 0, errors = 0;
  for (std::size_t round = 0; round < 2'100; ++round) {
    const std::string text = mutated(texts[round % texts.size()], words, random);
    try {
      static_cast<void>(read_recipe(text, "r", {.gpus = 2, .has_model = true, .given = {}}));
      ++read;
      static_cast<void>(
          changed_recipe(read_recipe_text(text, "r"), {{"deepspeed", "ds.json"}, {"seed", "1"}}));
    } catch (const InputError& error) {
      ++errors;
      const std::string what = error.what();
      ASSERT_TRUE(std::ranges::none_of(what, [](unsigned char c) { return std::iscntrl(c) != 0; })) << text;
    }
  }
  EXPECT_GT(read, 300);
  EXPECT_GT(errors, 300);
}

TEST(Recipe, WhereOnlyOthersWouldRunItSaysSo) {
  const Folder folder;
  const std::string file =
      folder.write("recipe.yaml", "base_model: Qwen/Qwen3-8B\ndeepspeed: zero3_bf16.json\n");
  const json r = report("--recipe " + file + " --gpus 4 --mem 80");
  EXPECT_THAT(r.at("recipes").at(0).at("not_planned").at(0).at("why").get<std::string>(),
              HasSubstr("zero3_bf16.json"));
  EXPECT_GT(r.at("plans").size(), 3U);
}

TEST(Recipe, NextIsTheTrainersOwnCommand) {
  const auto said = [](const std::string& files, const std::string& options) {
    return in_detail("--recipe " + files + " --mem 80 " + options).out;
  };
  const std::string qlora = said(recipe("axolotl_qlora.yaml"), "--gpus 2");
  EXPECT_THAT(qlora, HasSubstr("\n  axolotl train " + recipe("axolotl_qlora.yaml") + "\n"));
  EXPECT_THAT(qlora, Not(HasSubstr("train.py")));
  const std::string sharded =
      said(recipe("trl_sft.yaml") + "," + recipe("accelerate_fsdp.yaml"), "--quant-storage bf16");
  EXPECT_THAT(sharded, HasSubstr("trl sft --config " + recipe("trl_sft.yaml") + " --accelerate_config " +
                                 recipe("accelerate_fsdp.yaml")));
  EXPECT_THAT(said(recipe("accelerate_fsdp.yaml"), "--model 8B"),
              HasSubstr("accelerate launch --config_file " + recipe("accelerate_fsdp.yaml") + " train.py"));
}

TEST(RecipeOut, OfAPlanThatFitsIsTheSameFile) {
  const Folder folder;
  const std::string out = folder.path("new.yaml");
  const Result result =
      in_process("--recipe " + recipe("trl_sft.yaml") + " --gpus 2 --mem 24 --recipe-out " + out);
  EXPECT_EQ(result.status, kFits);
  EXPECT_THAT(result.err, HasSubstr("nothing to change"));
  EXPECT_EQ(read_text(out), read_text(recipe("trl_sft.yaml")));
}

/// Lines that `now` has and `before` has not.
std::vector<std::string> new_lines(const std::string& before, const std::string& now) {
  std::vector<std::string> lines;
  std::istringstream text(now);
  for (std::string line; std::getline(text, line);)
    if (("\n" + before).find("\n" + line + "\n") == std::string::npos) lines.push_back(line);
  return lines;
}

TEST(RecipeOut, KeepsCommentsAndOrder) {
  const Folder folder;
  const std::string out = folder.path("new.yaml");
  const Result result = in_process("search --recipe " + recipe("axolotl_qlora.yaml") +
                                   " --gpus 2 --mem 24 --recipe-out " + out);
  EXPECT_EQ(result.status, kFits) << result.err;
  const std::string before = read_text(recipe("axolotl_qlora.yaml")), now = read_text(out);
  EXPECT_THAT(now, HasSubstr("   # samples of a GPU\n"));
  EXPECT_THAT(now, HasSubstr("lora_r: 32          # rank of every adapter\n"));
  EXPECT_THAT(new_lines(before, now),
              ElementsAre("gradient_accumulation_steps: 16", "micro_batch_size: 2   # samples of a GPU",
                          "# Added by zplan.", "deepspeed: " + folder.path("new.ds_config.json")));
}

/// The written config is the recommended one: planned by itself it fits.
TEST(RecipeOut, IsPlannedAsRecommended) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"axolotl_qlora.yaml", "--gpus 2 --mem 24"},
      {"axolotl_fsdp.yaml", "--gpus 8 --mem 40"},
      {"llama_factory_lora.yaml", "--gpus 1 --mem 24"},
      {"llama_factory_full.yaml", "--gpus 8 --mem 80"},
      {"trl_sft.yaml", "--gpus 2 --mem 16"},
      {"training_arguments.json", "--model 8B --gpus 4 --mem 80"},
      {"torchtune_lora.yaml", "--gpus 2 --mem 24"},
      {"swift_sft.sh", "--mem 80"},
      {"swift_megatron.sh", "--gpu H100"},
      {"megatron_lm.sh", "--gpu H100"}};
  for (const auto& [name, options] : cases) {
    const Folder folder;
    const std::string out = folder.path(name);
    const Result found =
        in_process("search --recipe " + recipe(name) + " " + options + " --recipe-out " + out + " --json");
    ASSERT_EQ(found.status, kFits) << name << found.err;
    std::string files = out;
    if (const std::size_t at = found.err.find(".accelerate.yaml"); at != std::string::npos)
      files += "," + folder.path(name.substr(0, name.find('.')) + ".accelerate.yaml");
    const json chosen = json::parse(found.out);
    const json again = report("--recipe " + files + " " + options);
    EXPECT_EQ(again.at("recommended"), chosen.at("recommended")) << name;
    const json& wanted = chosen.at("plans").at(0).at("strategy");
    const json& got = again.at("plans").at(0).at("strategy");
    for (const char* key :
         {"micro_batch_size", "gradient_accumulation_steps", "activation_checkpointing", "zero_stage"})
      EXPECT_EQ(got.at(key), wanted.at(key)) << name << " " << key;
    EXPECT_EQ(again.at("plans").at(0).at("memory").at("required"),
              chosen.at("plans").at(0).at("memory").at("required"))
        << name;
  }
}

TEST(RecipeOut, OfWhatDoesNotFitIsTheAlternative) {
  const Folder folder;
  const std::string out = folder.path("new.yaml");
  const Result result =
      in_process("--recipe " + recipe("llama_factory_full.yaml") + " --gpus 4 --mem 48 --recipe-out " + out);
  EXPECT_EQ(result.status, kNothingFits);
  EXPECT_THAT(read_text(out),
              HasSubstr("deepspeed: " + folder.path("new.ds_config.json") + "   # beside this file"));
  EXPECT_EQ(in_process("--recipe " + out + " --gpus 4 --mem 48").status, kFits);
}

TEST(RecipeOut, StandsWithARecipeAlone) {
  EXPECT_THAT(in_process("--model 8B --mem 80 --recipe-out x.yaml").err,
              HasSubstr("--recipe-out: does nothing without --recipe"));
  const Result result =
      in_process("--recipe " + recipe("trl_sft.yaml") + " --gpus 2 --mem 24 --recipe-out -");
  EXPECT_EQ(result.out, read_text(recipe("trl_sft.yaml")));
}

TEST(RecipeOut, EditsYamlWhereItStands) {
  const auto changed = [](const std::string& text, const std::vector<RecipeChange>& changes) {
    return changed_recipe(read_recipe_text(text, "r.yaml"), changes);
  };
  EXPECT_EQ(changed("a: 'x'   # why\nb:\nc: 3", {{"a", "y"}, {"b", "2"}}), "a: y   # why\nb: 2\nc: 3");
  EXPECT_EQ(changed("s:\n  k: 1\n  l: 2 # l\nb: 1\n", {{"s", std::nullopt}}),
            "# s:\n#   k: 1\n#   l: 2 # l\nb: 1\n");
  EXPECT_EQ(changed("s:\n    k: 1\nb: 1\n", {{"s.m", "2"}}), "s:\n    m: 2\n    k: 1\nb: 1\n");
  EXPECT_EQ(changed("b: 1", {{"s.m", "2"}, {"s.n", "a b"}}),
            "b: 1\n# Added by zplan.\ns:\n  m: 2\n  n: \"a b\"\n");
  EXPECT_EQ(changed("ü: é # ñ\na: [1, 2]\n", {{"a", "3"}}), "ü: é # ñ\na: 3\n");
}

}  // namespace
}  // namespace zplan::test
