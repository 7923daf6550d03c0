// Scripts and configs that train with Megatron-Core: ms-swift's, and Megatron-LM's own script.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/base/values.h"
#include "cli/recipes/recipe.h"
#include "tests/cli/recipes/formats/recipe_support.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::Pair;

RecipeOptions read_options(const std::string& text, const std::string& name = "run.sh") {
  RecipeOptions options;
  for (const RecipeSetting& each : read_recipe(text, name, {}).settings)
    options.insert(options.end(), each.options.begin(), each.options.end());
  return options;
}

std::string joined(const json& words) {
  std::string list;
  for (const json& each : words) list += (list.empty() ? "" : ",") + each.get<std::string>();
  return list;
}

const std::string kSwift = "NPROC_PER_NODE=4 megatron sft --model Qwen/Qwen2.5-7B ";
const std::string kFull = kSwift +
                          "--tensor_model_parallel_size 2 --sequence_parallel true --max_length 2048 "
                          "--recompute_granularity full --recompute_method uniform "
                          "--recompute_num_layers 1 ";

// Source: ms-swift 4.6 swift/megatron/arguments/megatron_args.py.
TEST(SwiftMegatron, HasItsOwnDefaults) {
  EXPECT_THAT(read_options(kSwift),
              IsSupersetOf(RecipeOptions{{"--framework", "megatron"},
                                         {"--method", "full"},
                                         {"--precision", "bf16"},
                                         {"--micro-batch", "1"},
                                         {"--global-batch", "16"},
                                         {"--tp", "1"},
                                         {"--pp", "1"},
                                         {"--cp", "1"},
                                         {"--zero", "1"},
                                         {"--gpus", "4"},
                                         {"--megatron", "attention-backend=flash"},
                                         {"--megatron", "cross-entropy-loss-fusion"},
                                         {"--megatron", "no-gradient-accumulation-fusion"},
                                         {"--megatron", "no-create-attention-mask-in-dataloader"}}));
}

TEST(SwiftMegatron, ReadsDegreesBatchesAndSwitches) {
  const RecipeOptions options = read_options(
      kFull +
      "--pipeline_model_parallel_size 2 --context_parallel_size 1 --micro_batch_size 2 --global_batch_size "
      "32 "
      "--use_distributed_optimizer false --overlap_grad_reduce true --cross_entropy_loss_fusion false "
      "--gradient_accumulation_fusion true --attention_backend fused --decoder_last_pipeline_num_layers 13");
  EXPECT_THAT(options, IsSupersetOf(RecipeOptions{{"--tp", "2"},
                                                  {"--pp", "2"},
                                                  {"--cp", "1"},
                                                  {"--micro-batch", "2"},
                                                  {"--global-batch", "32"},
                                                  {"--seq", "2048"},
                                                  {"--zero", "0"},
                                                  {"--checkpointing", "full"},
                                                  {"--megatron", "sequence-parallel"},
                                                  {"--megatron", "overlap-grad-reduce"},
                                                  {"--megatron", "attention-backend=fused"},
                                                  {"--megatron", "decoder-last-pipeline-num-layers=13"}}));
  EXPECT_THAT(options, Not(Contains(Pair("--megatron", "cross-entropy-loss-fusion"))));
  EXPECT_THAT(options, Not(Contains(Pair("--megatron", "no-gradient-accumulation-fusion"))));
}

TEST(SwiftMegatron, IsPlannedAsItsOptions) {
  const Folder folder;
  const json r = report("--recipe " + folder.write("run.sh", kFull + "--packing true\n") + " --gpu H100");
  const json typed = report(
      "--model Qwen/Qwen2.5-7B --gpus 4 --gpu H100 --framework megatron --tp 2 --pp 1 --cp 1 --zero 1 "
      "--seq 2048 --micro-batch 1 --global-batch 16 --checkpointing full "
      "--megatron " +
      joined(r.at("plans").at(0).at("strategy").at("megatron")));
  EXPECT_EQ(r.at("plans").at(0).at("memory").at("required"),
            typed.at("plans").at(0).at("memory").at("required"));
}

TEST(SwiftMegatron, ReadsAConfig) {
  const json r = planned_as(
      "model: Qwen/Qwen2.5-7B\ntensor_model_parallel_size: 2\nsequence_parallel: true\nmicro_batch_size: 1\n"
      "global_batch_size: 8\nrecompute_granularity: selective\nmax_length: 2048\nlr: 1e-5\n",
      "sft.yaml", "--gpus 2");
  EXPECT_EQ(r.at("recipes").at(0).at("format"), "swift-megatron");
  const json& strategy = r.at("plans").at(0).at("strategy");
  EXPECT_EQ(strategy.at("tensor_parallel"), 2);
  EXPECT_EQ(strategy.at("gradient_accumulation_steps"), 8);
  EXPECT_EQ(strategy.at("activation_checkpointing"), "selective");
  EXPECT_THAT(r.at("recipes").at(0).at("unknown"), IsEmpty());
}

// Source: ms-swift 4.6 swift/megatron/arguments/megatron_args.py MegatronTunerMixin; 3.12 calls the first key
// train_type.
TEST(SwiftMegatron, ReadsAdapters) {
  const std::string rest = " --max_length 512 --global_batch_size 4 --micro_batch_size 1";
  const json said = planned_as(
      "model: Qwen/Qwen2.5-7B\ntuner_type: lora\nlora_rank: 16\nlora_alpha: 32\nlora_dropout: 0\n"
      "target_modules: [linear_qkv, linear_proj]\nmerge_lora: true\nlora_dtype: bfloat16\nuse_rslora: true\n"
      "micro_batch_size: 1\nglobal_batch_size: 4\nmax_length: 512\n",
      "sft.yaml", "--gpus 4");
  EXPECT_EQ(said.at("training").at("method"), "lora");
  EXPECT_EQ(said.at("training").at("lora_rank"), 16);
  EXPECT_EQ(said.at("training").at("lora_dropout"), 0);
  EXPECT_EQ(said.at("training").at("lora_targets"), json::array({"linear_qkv", "linear_proj"}));
  EXPECT_THAT(said.at("recipes").at(0).at("unknown"), IsEmpty());
  EXPECT_THAT(said.at("recipes").at(0).at("not_planned"),
              Not(Contains(testing::ResultOf([](const json& each) { return each.at("key"); },
                                             testing::StartsWith("lora")))));
  for (const std::string key : {"--train_type lora", "--tuner_type full --adapters out/a"}) {
    const json usual = planned_as(kSwift + key + rest, "run.sh", "");
    EXPECT_EQ(usual.at("training").at("method"), "lora") << key;
    EXPECT_EQ(usual.at("training").at("lora_rank"), 8) << key;
    EXPECT_EQ(usual.at("training").at("lora_dropout"), 0.05) << key;
    EXPECT_EQ(usual.at("training").at("lora_targets"), json::array({"all-linear"})) << key;
  }
  // Keys of adapters mean nothing where all weights train.
  EXPECT_THAT(read_options(kSwift + "--lora_rank 64 --target_modules all-router"),
              Not(Contains(Pair("--lora-rank", "64"))));
}

TEST(SwiftMegatron, RefusesWhatHasNoPlan) {
  const auto error = [](const std::string& flags) { return refused(kSwift + flags, "run.sh"); };
  EXPECT_THAT(error("--tuner_type lisa"), HasSubstr(R"(tuner_type: "lisa"; accepted: full, lora, lora_llm)"));
  EXPECT_THAT(error("--tuner_type lora --target_modules all-linear all-router"),
              HasSubstr(R"(target_modules: "all-router": adapters of it are not planned)"));
  EXPECT_THAT(error("--tuner_type lora --target_modules q_proj --max_length 512"),
              HasSubstr(R"(the model has no module "q_proj")"));
  EXPECT_THAT(error("--optimizer dist_muon"), HasSubstr("optimizer: \"dist_muon\" under Megatron-Core"));
  EXPECT_THAT(error("--fp8_format e4m3"), HasSubstr("fp8_format: \"e4m3\" under Megatron-Core"));
  EXPECT_THAT(error("--use_megatron_fsdp true"), HasSubstr("use_megatron_fsdp"));
  EXPECT_THAT(refused("megatron sft --model google/gemma-2-2b --max_length 1024", "run.sh"),
              HasSubstr("under Megatron-Core models"));
  EXPECT_THAT(refused("megatron rlhf --rlhf_type orpo --model Qwen/Qwen2.5-7B --max_length 512", "run.sh"),
              HasSubstr("ms-swift has no orpo under Megatron-Core"));
  EXPECT_THAT(refused("megatron rlhf --rlhf_type dpo --model Qwen/Qwen2.5-7B --max_length 512 "
                      "--precompute_ref_log_probs true",
                      "run.sh"),
              HasSubstr("a reference model runs in each forward step"));
  EXPECT_THAT(refused("megatron export --model Qwen/Qwen2.5-7B --to_mcore true", "run.sh"),
              HasSubstr("converts a model, it trains nothing"));
}

// Arguments that Megatron-Core refuses are refused. Source: Megatron-Core 0.19.2 training/arguments.py.
TEST(SwiftMegatron, RefusesWhatMegatronRefuses) {
  const auto error = [](const std::string& flags) { return refused(kSwift + flags, "run.sh"); };
  EXPECT_THAT(error("--recompute_granularity full"), HasSubstr("full without recompute_method"));
  EXPECT_THAT(error("--recompute_granularity full --recompute_method uniform"),
              HasSubstr("full without recompute_num_layers"));
  EXPECT_THAT(error("--recompute_granularity selective --recompute_method uniform"),
              HasSubstr("selective with recompute_method"));
  EXPECT_THAT(error("--cross_entropy_fusion_impl te"), HasSubstr("unstable"));
  EXPECT_THAT(error("--micro_batch_size 4 --global_batch_size 6"),
              HasSubstr("a global batch of 6 is not a multiple of micro-batch 4"));
}

TEST(SwiftMegatron, NamesWhatIsNotPlanned) {
  const json r =
      planned_as(kFull + "--padding_free true --megatron_extra_kwargs '{}' --foo 1", "run.sh", "--gpus 4");
  EXPECT_THAT(not_planned(r), HasSubstr("padding_free"));
  EXPECT_THAT(not_planned(r), HasSubstr("megatron_extra_kwargs"));
  EXPECT_EQ(r.at("recipes").at(0).at("unknown").at(0).at("key"), "foo");
  // The default of a key that is not there is named.
  EXPECT_THAT(not_planned(planned_as(kFull, "run.sh", "--gpus 4")), HasSubstr("padding_free"));
  EXPECT_THAT(not_planned(planned_as(kFull + "--padding_free false", "run.sh", "--gpus 4")),
              Not(HasSubstr("padding_free")));
}

const std::string kRlhf = "NPROC_PER_NODE=4 megatron rlhf --model Qwen/Qwen2.5-7B --max_length 1024 ";

// Source: ms-swift 4.6 swift/megatron/trainers/rlhf_mixin.py prepare_model, null_ref_context;
// swift/megatron/arguments/rlhf_args.py, megatron_args.py RLHFMegatronArgumentsMixin.
TEST(SwiftMegatron, ReadsPairsAndRewards) {
  const json copied = planned_as(kRlhf, "run.sh", "--gpus 4").at("training");  // dpo by default
  EXPECT_EQ(copied.at("objective"), "dpo");
  EXPECT_EQ(copied.at("reference"), "copy");
  EXPECT_EQ(planned_as(kRlhf + "--tuner_type lora", "run.sh", "--gpus 4").at("training").at("reference"),
            "adapters-off");
  EXPECT_EQ(planned_as(kRlhf + "--rlhf_type kto", "run.sh", "--gpus 4").at("training").at("objective"),
            "kto");
  EXPECT_EQ(planned_as(kRlhf + "--rlhf_type rm", "run.sh", "--gpus 4").at("training").at("objective"),
            "reward");
  EXPECT_THAT(read_options(kRlhf), Not(Contains(Pair("--megatron", "calculate-per-token-loss"))));
  EXPECT_THAT(read_options(kSwift + "--rlhf_type dpo"), Not(Contains(Pair("--objective", testing::_))));
}

TEST(SwiftMegatron, ReadsGroupsOfCompletions) {
  const std::string run = kRlhf +
                          "--rlhf_type grpo --max_completion_length 512 --vllm_mode colocate "
                          "--vllm_gpu_memory_utilization 0.4 --sleep_level 1 --num_generations 4 "
                          "--micro_batch_size 2 --global_batch_size 32 --steps_per_generation 2 ";
  const json said = planned_as(run + "--beta 0.001", "run.sh", "--gpus 4").at("training");
  EXPECT_EQ(said.at("objective"), "grpo");
  EXPECT_EQ(said.at("reference"), "copy");
  EXPECT_EQ(said.at("sequence_length"), 1536);
  const json& rollout = said.at("rollout");
  EXPECT_EQ(rollout.at("engine"), "colocate");
  EXPECT_EQ(rollout.at("generations"), 4);
  EXPECT_EQ(rollout.at("completion_length"), 512);
  // Two optimizer steps of four micro-batches a rank.
  EXPECT_THAT(read_recipe(run, "run.sh", {.gpus = 4, .given = {}}).settings,
              Contains(testing::ResultOf([](const RecipeSetting& each) { return each.options; },
                                         Contains(Pair("--steps-per-generation", "8")))));
  EXPECT_TRUE(planned_as(run + "--beta 0", "run.sh", "--gpus 4").at("training").at("reference").is_null());
}

// Each stage scores with its own layers, also where the first one's embedding is not there.
TEST(SwiftMegatron, PlansCompletionsOnStagesAndExperts) {
  const std::string run =
      "megatron rlhf --rlhf_type grpo --use_vllm true --vllm_mode server --max_completion_length 512 "
      "--max_length 1024 --num_generations 4 --micro_batch_size 2 --global_batch_size 32 "
      "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1 "
      "--pipeline_model_parallel_size 2 ";
  for (const char* model :
       {"--model Qwen/Qwen3-8B", "--model Qwen/Qwen3-30B-A3B --expert_model_parallel_size 4"}) {
    const json plan = planned_as(run + model, "run.sh", "--gpus 8").at("plans").at(0);
    EXPECT_EQ(plan.at("stages").size(), 2U) << model;
    for (const json& moment : plan.at("moments")) {
      if (moment.at("moment") == "scoring") {
        EXPECT_GT(moment.at("device"), 0) << model;
      }
    }
  }
}

TEST(SwiftMegatron, ReadsTeachers) {
  const std::string run = kRlhf + "--rlhf_type gkd --use_vllm false --lmbda 0 --micro_batch_size 1 ";
  const json taught =
      planned_as(run + "--teacher_model Qwen/Qwen2.5-14B", "run.sh", "--gpus 4").at("training");
  EXPECT_EQ(taught.at("objective"), "gkd");
  const json own =
      planned_as(run + "--tuner_type lora --teacher_model Qwen/Qwen2.5-7B", "run.sh", "--gpus 4");
  EXPECT_EQ(own.at("training").at("reference"), "adapters-off");
}

// The towers of these models are transformers' modules, frozen by default. Source: mcore-bridge 1.6.5
// model/mm_gpt_model.py; ms-swift 4.6 swift/megatron/arguments/megatron_args.py freeze_vit.
TEST(SwiftMegatron, ReadsTowers) {
  const std::string run = "megatron sft --model Qwen/Qwen2.5-VL-7B-Instruct --max_length 1024 ";
  const json frozen = planned_as(run, "run.sh", "--gpus 8").at("training");
  EXPECT_EQ(frozen.at("frozen_parts"), json::array({"vision", "projector"}));
  const json trained = planned_as(run + "--freeze_vit false --freeze_aligner false", "run.sh", "--gpus 8");
  EXPECT_FALSE(trained.at("training").contains("frozen_parts"));
}

// Padded samples have a mask, which the data loader makes.
TEST(SwiftMegatron, MakesAMaskOfPaddedSamples) {
  EXPECT_THAT(read_options(kSwift + "--padding_free false"),
              Not(Contains(Pair("--megatron", "no-create-attention-mask-in-dataloader"))));
}

TEST(SwiftMegatron, IsWrittenBackInItsOwnKeys) {
  const Folder folder;
  const std::string file = folder.write("run.sh", kFull + "--micro_batch_size 32 --global_batch_size 64\n");
  const std::string out = folder.path("new.sh");
  EXPECT_EQ(in_process("--recipe " + file + " --mem 80 --recipe-out " + out).status, kNothingFits);
  EXPECT_THAT(read_text(out), HasSubstr(" --global_batch_size 64"));
  EXPECT_EQ(in_process("--recipe " + out + " --mem 80").status, kFits);
}

TEST(SwiftMegatron, PlansTheNextBatchThatTheTypedGpusCanMake) {
  const std::string rest = kFull.substr(kFull.find(' ')) + "--micro_batch_size 16 --global_batch_size 16";
  const std::string script = "NPROC_PER_NODE=2" + rest;
  const auto accumulation = [](const json& r) {
    return r.at("plans").at(0).at("strategy").at("gradient_accumulation_steps").get<int>();
  };
  const json grown = planned_as(script, "run.sh", "--gpus 8");  // 64 samples: one micro-batch a rank
  EXPECT_EQ(accumulation(grown), 1);
  EXPECT_THAT(not_planned(grown), HasSubstr("global_batch_size"));
  const json made = planned_as(script, "run.sh", "--gpus 2");
  EXPECT_EQ(accumulation(made), 1);
  EXPECT_THAT(not_planned(made), Not(HasSubstr("global_batch_size")));
  EXPECT_EQ(accumulation(planned_as(kFull, "run.sh", "--gpus 8")), 4);  // ms-swift's usual 16 samples
  // Four GPUs cannot make the batch either, so Megatron refuses this script wherever it runs.
  const Folder folder;
  const std::string file = folder.write("run.sh", "NPROC_PER_NODE=4" + rest);
  EXPECT_THAT(in_process("--recipe " + file + " --gpus 8 --mem 80").err, HasSubstr("a global batch of 16"));
  // A number of GPUs that no machine has is not taken for the script's own.
  EXPECT_THAT(not_planned(planned_as("NPROC_PER_NODE=2 NNODES=1" + rest, "run.sh", "--gpus 8 --nodes 1")),
              HasSubstr("global_batch_size"));
  for (const std::string number : {"9223372036854775807", "-9223372036854775808", "99999999999999999999"}) {
    const std::string huge = folder.write("run.sh", "NPROC_PER_NODE=" + number + " NNODES=" + number + rest);
    EXPECT_THAT(in_process("--recipe " + huge + " --gpus 8 --mem 80").err, HasSubstr("a global batch of 16"));
  }
}

// ---- Megatron-LM

const std::string kSizes =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 4096 "
    "--max-position-embeddings 8192 --position-embedding-type rope --swiglu --normalization RMSNorm "
    "--disable-bias-linear --attention-dropout 0.0 --hidden-dropout 0.0 "
    "--untie-embeddings-and-output-weights "
    "--tokenizer-type NullTokenizer --vocab-size 128256 ";
const std::string kPretrain = "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py " + kSizes +
                              "--micro-batch-size 1 --global-batch-size 64 --bf16 ";

TEST(MegatronLm, MakesTheModelOfItsSizes) {
  const Folder folder;
  const json r = report("--recipe " +
                        folder.write("run.sh", kPretrain + "--use-distributed-optimizer --sequence-parallel "
                                                           "--tensor-model-parallel-size 2\n") +
                        " --gpu H100");
  EXPECT_EQ(r.at("recipes").at(0).at("format"), "megatron-lm");
  EXPECT_EQ(r.at("model").at("parameters"), 8030261248);  // Llama-3-8B's
  const json& strategy = r.at("plans").at(0).at("strategy");
  EXPECT_EQ(strategy.at("tensor_parallel"), 2);
  EXPECT_EQ(strategy.at("micro_batch_size"), 1);
  EXPECT_EQ(strategy.at("gradient_accumulation_steps"), 16);
  EXPECT_EQ(strategy.at("activation_checkpointing"), "none");
  EXPECT_THAT(r.at("recipes").at(0).at("unknown"), IsEmpty());
}

TEST(MegatronLm, HasMegatronsOwnDefaults) {
  const RecipeOptions options = read_options(kPretrain);
  EXPECT_THAT(options,
              IsSupersetOf(RecipeOptions{
                  {"--zero", "0"}, {"--megatron", "none"}, {"--precision", "bf16"}, {"--gpus", "8"}}));
  EXPECT_THAT(read_options("torchrun --nproc_per_node 8 pretrain_gpt.py " + kSizes),
              Contains(Pair("--precision", "fp32")));
  EXPECT_THAT(read_options(kPretrain + "--no-gradient-accumulation-fusion --recompute-activations"),
              IsSupersetOf(RecipeOptions{{"--megatron", "no-gradient-accumulation-fusion"},
                                         {"--checkpointing", "selective"}}));
}

TEST(MegatronLm, RunsOneMicroBatchWhereNoGlobalBatchIsGiven) {
  const std::string script = "torchrun --nproc_per_node 8 pretrain_gpt.py " + kSizes +
                             "--micro-batch-size 1 --bf16 --pipeline-model-parallel-size 4\n";
  const auto accumulation = [&](const std::string& words) {
    return planned_as(script, "run.sh", "--gpus 8 " + words)
        .at("plans")
        .at(0)
        .at("strategy")
        .at("gradient_accumulation_steps");
  };
  EXPECT_EQ(accumulation(""), 1);
  EXPECT_EQ(accumulation("--global-batch 64"), 32);
  EXPECT_EQ(accumulation("--grad-accum 16"), 16);
}

TEST(MegatronLm, SaysThatGatedLayersHaveNoDropout) {
  EXPECT_THAT(refused("torchrun --nproc_per_node 8 pretrain_gpt.py " + kSizes + "--hidden-dropout 0.1 --bf16",
                      "run.sh"),
              HasSubstr("gated layers with Megatron-Core's dropout are not planned"));
}

TEST(MegatronLm, ReadsGpt2sLayers) {
  const std::string gpt =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads "
      "16 "
      "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 4 --global-batch-size 512 --bf16 "
      "--vocab-file v.json --merge-file m.txt --use-distributed-optimizer\n";
  const json r = planned_as(gpt, "run.sh", "--gpus 8");
  EXPECT_EQ(r.at("model").at("parameters"), 1315723264);
}

TEST(MegatronLm, RefusesModelsThatSizesDoNotSay) {
  EXPECT_THAT(refused(kPretrain + "--num-experts 8", "run.sh"), HasSubstr("num_experts"));
  EXPECT_THAT(refused("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 "
                      "--num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --bf16 "
                      "--tokenizer-type Llama2Tokenizer --tokenizer-model t.model",
                      "run.sh"),
              HasSubstr("the tokenizer's vocabulary is not known (\"Llama2Tokenizer\")"));
  // A model that is named beside the script is planned in its place.
  EXPECT_EQ(planned_as(kPretrain + "--num-experts 8", "run.sh", "--gpus 8 --model Qwen/Qwen3-8B")
                .at("model")
                .at("name"),
            "Qwen/Qwen3-8B");
}

TEST(MegatronLm, IsWrittenBackInItsOwnFlags) {
  const Folder folder;
  const std::string file = folder.write("run.sh", kPretrain + "\n"), out = folder.path("new.sh");
  ASSERT_EQ(in_process("search --recipe " + file + " --gpu H100 --recipe-out " + out).status, kFits);
  EXPECT_THAT(read_text(out), HasSubstr(" \\\n    --use-distributed-optimizer"));
  EXPECT_EQ(report("--recipe " + out + " --gpu H100").at("plans").at(0).at("strategy").at("zero_stage"), 1);
}

}  // namespace
}  // namespace zplan::test
