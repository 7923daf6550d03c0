// ms-swift's arguments as ms-swift 4.6 reads them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/base/values.h"
#include "cli/recipes/recipe.h"
#include "models/base/error.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

Recipe swift_read(const std::string& text, const RecipeAsked& asked = {}) {
  return read_recipe(text, "run.sh", asked);
}

/// All options that a script gives, its defaults last.
RecipeOptions swift_options(const std::string& text, const RecipeAsked& asked = {}) {
  RecipeOptions options;
  for (const RecipeSetting& each : swift_read(text, asked).settings)
    options.insert(options.end(), each.options.begin(), each.options.end());
  return options;
}

std::string swift_error(const std::string& text) {
  try {
    static_cast<void>(swift_read(text));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

std::vector<std::string> swift_not_planned(const std::string& text) {
  std::vector<std::string> keys;
  for (const RecipeKey& each : swift_read(text).not_planned) keys.push_back(each.key);
  return keys;
}

const std::string kSft = "swift sft --model Qwen/Qwen3-8B ";
const std::string kGrpo = "swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B ";

// Source: trainers/arguments.py gradient_accumulation_steps: ceil(16 / (batch x processes)), 1 under GRPO.
TEST(SwiftRecipe, AccumulatesSixteenSamplesUnlessToldOtherwise) {
  EXPECT_THAT(swift_options(kSft), Contains(Pair("--grad-accum", "16")));
  EXPECT_THAT(swift_options("NPROC_PER_NODE=4 " + kSft + "--per_device_train_batch_size 3"),
              Contains(Pair("--grad-accum", "2")));
  EXPECT_THAT(swift_options(kSft, {.gpus = 32, .model = {}, .given = {}}),
              Contains(Pair("--grad-accum", "1")));
  EXPECT_THAT(swift_options(kSft + "--gradient_accumulation_steps 5"), Contains(Pair("--grad-accum", "5")));
  EXPECT_THAT(swift_options(kGrpo), Contains(Pair("--grad-accum", "1")));
}

TEST(SwiftRecipe, CountsTheGpusOfAllNodes) {
  const RecipeOptions options = swift_options("export NNODES=2\nexport NPROC_PER_NODE=4\n" + kSft);
  EXPECT_THAT(options, Contains(Pair("--gpus", "8")));
  EXPECT_THAT(options, Contains(Pair("--nodes", "2")));
  EXPECT_THAT(swift_error("NNODES=$W NPROC_PER_NODE=4 " + kSft), HasSubstr("$W"));
  EXPECT_THAT(swift_options("CUDA_VISIBLE_DEVICES=3 " + kSft), Contains(Pair("--gpus", "1")));
}

// Source: swift/model/utils.py get_default_device_map: one process spreads the layers over its GPUs.
TEST(SwiftRecipe, RefusesLayersSpreadOverGpus) {
  EXPECT_THAT(swift_error("CUDA_VISIBLE_DEVICES=0,1 " + kSft),
              HasSubstr("run.sh:1: CUDA_VISIBLE_DEVICES: 2 GPUs of one process"));
  EXPECT_THAT(swift_error("CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 " + kSft), IsEmpty());
  EXPECT_THAT(
      swift_error(
          "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 swift/cli/sft.py --model Qwen/Qwen3-8B"),
      IsEmpty());
}

// Source: model_args.py _init_mixed_precision: weights in fp32 or fp16 are trained with fp16's autocast.
TEST(SwiftRecipe, TrainsByTheWeightsType) {
  EXPECT_THAT(swift_options(kSft), Contains(Pair("--precision", "bf16")));
  EXPECT_THAT(swift_options(kSft + "--torch_dtype float32"), Contains(Pair("--precision", "fp16")));
  EXPECT_THAT(swift_options(kSft + "--torch_dtype float32 --fp16 false"),
              Contains(Pair("--precision", "fp32")));
}

// Source: quant_args.py get_quantization_config.
TEST(SwiftRecipe, PacksNothingWithoutAMethod) {
  EXPECT_THAT(swift_options(kSft + "--quant_bits 4"), Not(Contains(Pair("--method", "qlora"))));
  EXPECT_THAT(swift_not_planned(kSft + "--quant_bits 4"), Contains("quant_bits"));
  EXPECT_THAT(swift_options(kSft + "--quant_bits 4 --quant_method bnb"),
              Contains(Pair("--quantization", "nf4-double")));
}

// Source: tuner_args.py _init_multimodal_full: tower and projector are frozen unless a key says otherwise.
TEST(SwiftRecipe, FreezesTheTowerOfAnImageTextModel) {
  const std::string full = "swift sft --tuner_type full --model Qwen/Qwen2.5-VL-7B-Instruct ";
  EXPECT_THAT(swift_options(full), Contains(Pair("--freeze", "vision,projector")));
  EXPECT_THAT(swift_options(full + "--freeze_vit false"), Contains(Pair("--freeze", "projector")));
  EXPECT_THAT(swift_options(full + "--freeze_vit false --freeze_aligner false"),
              Not(Contains(Pair("--freeze", testing::_))));
  EXPECT_THAT(swift_options("swift sft --tuner_type full --model Qwen/Qwen3-8B"),
              Not(Contains(Pair("--freeze", testing::_))));
  EXPECT_THAT(swift_not_planned(full + "--freeze_llm true"), Contains("freeze_llm"));
}

// Its projector is called mlp1.
TEST(SwiftRecipe, FreezesTheProjectorOfInternVlsOwnCode) {
  EXPECT_THAT(swift_options("swift sft --tuner_type full --model OpenGVLab/InternVL3-2B-Pretrained"),
              Contains(Pair("--freeze", "vision,projector")));
}

// Source: rlhf_args.py, rlhf_trainers/args_mixin.py.
TEST(SwiftRecipe, ReadsGrpoWithItsDefaults) {
  const RecipeOptions plain = swift_options(kGrpo + "--max_length 2048");
  for (const auto& each : RecipeOptions{{"--objective", "grpo"},
                                        {"--seq", "2560"},
                                        {"--completion-length", "512"},
                                        {"--generations", "8"},
                                        {"--reference", "adapters-off"},
                                        {"--rollout", "trainer"}})
    EXPECT_THAT(plain, Contains(each)) << each.first;
  const RecipeOptions vllm = swift_options(
      kGrpo +
      "--tuner_type full --beta 0.0 --use_vllm true --vllm_mode colocate --vllm_tensor_parallel_size 2 "
      "--sleep_level 1 "
      "--max_completion_length 1024 --num_generations 4 --num_iterations 2 --steps_per_generation 4");
  for (const auto& each : RecipeOptions{{"--rollout", "colocate"},
                                        {"--vllm-memory", "0.9"},
                                        {"--vllm-tp", "2"},
                                        {"--vllm-sleep", "1"},
                                        {"--generations", "4"},
                                        {"--iterations", "2"},
                                        {"--steps-per-generation", "4"}})
    EXPECT_THAT(vllm, Contains(each)) << each.first;
  EXPECT_THAT(vllm, Not(Contains(Pair("--reference", testing::_))));
  EXPECT_THAT(swift_options(kGrpo + "--tuner_type full"), Contains(Pair("--reference", "copy")));
  EXPECT_THAT(swift_error(kGrpo + "--use_vllm true"),
              HasSubstr("use_vllm: true without vllm_mode; accepted: with vllm_mode"));
  EXPECT_THAT(swift_not_planned(kGrpo + "--teacher_model Qwen/Qwen3-32B"), Contains("teacher_model"));
}

// Source: rlhf_args.py lmbda, beta, sft_alpha, gkd_logits_topk, _check_teacher.
TEST(SwiftRecipe, ReadsGkd) {
  const std::string gkd = "swift rlhf --rlhf_type gkd --model Qwen/Qwen2.5-7B --tuner_type full ";
  const std::string taught = gkd + "--teacher_model Qwen/Qwen2.5-14B-Instruct --max_length 2048 ";
  const RecipeOptions given = swift_options(taught + "--lmbda 0 --beta 1.0 --sft_alpha 0.1");
  for (const auto& each : RecipeOptions{{"--objective", "gkd"},
                                        {"--teacher", "Qwen/Qwen2.5-14B-Instruct"},
                                        {"--divergence", "reverse"},
                                        {"--label-loss", std::string(kFlagGiven)},
                                        {"--seq", "2048"}})
    EXPECT_THAT(given, Contains(each)) << each.first;
  EXPECT_THAT(given, Not(Contains(Pair("--completion-length", testing::_))));
  const RecipeOptions generated =
      swift_options(taught + "--use_vllm true --vllm_mode colocate --sleep_level 1");
  for (const auto& each : RecipeOptions{{"--completion-length", "512"},
                                        {"--rollout", "colocate"},
                                        {"--vllm-memory", "0.9"},
                                        {"--vllm-sleep", "1"}})
    EXPECT_THAT(generated, Contains(each)) << each.first;
  const RecipeOptions served =
      swift_options(gkd + "--teacher_model_server http://localhost:8000 --gkd_logits_topk 64");
  EXPECT_THAT(served, Contains(Pair("--reference", "none")));
  EXPECT_THAT(served, Contains(Pair("--teacher-top", "64")));
  const RecipeOptions own =
      swift_options("swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --teacher_model Qwen/Qwen3-8B");
  EXPECT_THAT(own, Contains(Pair("--reference", "adapters-off")));
  EXPECT_THAT(own, Not(Contains(Pair("--teacher", testing::_))));
  EXPECT_THAT(swift_not_planned(taught + "--deepspeed zero3 --teacher_deepspeed zero3_offload"),
              Contains("teacher_deepspeed"));
}

// Source: pipelines/train/tuner.py prepare_adapter, tuner_plugin/lora_llm.py.
TEST(SwiftRecipe, ReadsOtherTuners) {
  const auto tuned = [](const std::string& name) {
    return swift_options(kSft + "--tuner_type " + name + " --lora_rank 8");
  };
  EXPECT_THAT(tuned("adalora"), Contains(Pair("--lora-rank", "12")));
  EXPECT_THAT(tuned("adalora"), Contains(Pair("--adapters", "4")));
  EXPECT_THAT(tuned("adalora"), Not(Contains(Pair("--lora-rank", "8"))));
  EXPECT_THAT(tuned("longlora"), Contains(Pair("--lora-rank", "8")));
  EXPECT_THAT(tuned("llamapro"), Contains(Pair("--expand-blocks", "4")));
  EXPECT_THAT(tuned("llamapro"), Contains(Pair("--method", "full")));
  for (const char* name : {"boft", "bone", "vera", "fourierft", "reft", "ia3", "adapter"}) {
    EXPECT_THAT(tuned(name), Contains(Pair("--method", "lora"))) << name;
    EXPECT_THAT(swift_not_planned(kSft + "--tuner_type " + name), Contains("tuner_type")) << name;
  }
  EXPECT_THAT(swift_options("swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --tuner_type lora_llm"),
              Contains(Pair("--train-tower", std::string(kFlagGiven))));
  EXPECT_THAT(swift_error(kSft + "--tuner_type lorax"), HasSubstr("accepted: lora, full, lora_llm"));
}

TEST(SwiftRecipe, DividesSequencesOfNextTokens) {
  const std::string model = "swift sft --model Qwen/Qwen3-8B --sequence_parallel_size 4 --max_length 65535\n";
  EXPECT_THAT(swift_options(model), Contains(Pair("--sp", "4")));
  EXPECT_THAT(swift_options(model), Contains(Pair("--seq", "65536")));
  const std::string pairs =
      "swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --sequence_parallel_size 4 --max_length 2049\n";
  EXPECT_THAT(swift_options(pairs), Not(Contains(Pair("--sp", "4"))));
  EXPECT_THAT(swift_options(pairs), Contains(Pair("--seq", "2049")));
  const Recipe read = swift_read(pairs);
  EXPECT_TRUE(std::ranges::any_of(
      read.not_planned, [](const RecipeKey& each) { return each.key == "sequence_parallel_size"; }));
}

TEST(SwiftRecipe, PlansLigersLossOfNextTokensAlone) {
  const std::string sft = "swift sft --model Qwen/Qwen3-8B --use_liger_kernel true\n";
  EXPECT_THAT(swift_options(sft), Contains(Pair("--fused-loss", testing::_)));
  const std::string pairs = "swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --use_liger_kernel true\n";
  EXPECT_THAT(swift_options(pairs), Not(Contains(Pair("--fused-loss", testing::_))));
  EXPECT_THAT(swift_options(pairs), Contains(Pair("--kernels", "liger")));
}

TEST(SwiftRecipe, ReadsPreferences) {
  EXPECT_THAT(swift_options("swift rlhf --model Qwen/Qwen3-8B"), Contains(Pair("--objective", "dpo")));
  EXPECT_THAT(swift_options("swift rlhf --rlhf_type rm --model Qwen/Qwen3-8B"),
              Contains(Pair("--objective", "reward")));
  EXPECT_THAT(swift_options(kSft + "--rlhf_type dpo"), Not(Contains(Pair("--objective", testing::_))));
  EXPECT_THAT(swift_error("swift rlhf --model Qwen/Qwen3-8B --rlhf_type xpo"),
              HasSubstr("rlhf_type: \"xpo\"; accepted: dpo"));
  const std::string cpo = "swift rlhf --model Qwen/Qwen3-8B --rlhf_type cpo";
  EXPECT_THAT(swift_options(cpo), Contains(Pair("--objective", "orpo")));
  EXPECT_THAT(swift_not_planned(cpo), Contains("rlhf_type"));
}

TEST(SwiftRecipe, ReadsPpoWithTwoCopiesOfTheRewardModel) {
  const RecipeOptions options = swift_options(
      "swift rlhf --rlhf_type ppo --model Qwen/Qwen3-8B --reward_model Qwen/Qwen3-0.6B --max_length 1024 "
      "--num_mini_batches 2");
  for (const auto& each : RecipeOptions{{"--objective", "ppo"},
                                        {"--value-model", "Qwen/Qwen3-0.6B"},
                                        {"--reward-model", "Qwen/Qwen3-0.6B"},
                                        {"--mini-batches", "2"},
                                        {"--completion-length", "512"},
                                        {"--seq", "1024"}})
    EXPECT_THAT(options, Contains(each)) << each.first;
}

// Source: sft_args.py _init_fsdp, swift/config/fsdp2.json.
TEST(SwiftRecipe, ReadsFsdpAsPresetPathAndText) {
  const RecipeOptions preset = swift_options(kSft + "--fsdp fsdp2");
  for (const auto& each :
       RecipeOptions{{"--framework", "fsdp"}, {"--zero", "3"}, {"--checkpointing", "full"}})
    EXPECT_THAT(preset, Contains(each));
  const std::string config =
      R"('{"fsdp": "full_shard auto_wrap offload", "fsdp_config": {"reshard_after_forward": false, "activation_cpu_offload": true}}')";
  const RecipeOptions text = swift_options(kSft + "--fsdp " + config);
  for (const auto& each : RecipeOptions{{"--framework", "fsdp"}, {"--zero", "2"}, {"--offload", "all"}})
    EXPECT_THAT(text, Contains(each));
  EXPECT_THAT(swift_not_planned(kSft + "--fsdp " + config), Contains("fsdp"));
  // The name of a file says nothing of offload.
  EXPECT_THAT(swift_options("echo '{}' > offload/a.json\n" + kSft + "--fsdp ./offload/a.json"),
              Not(Contains(Pair("--offload", testing::_))));
}

TEST(SwiftRecipe, PlansAnImageOfTheMostPixels) {
  const std::string image = "MAX_PIXELS=$((1280 * 28 * 28)) swift sft --model Qwen/Qwen2.5-VL-7B-Instruct ";
  const RecipeOptions options = swift_options(image + "--max_length 2048");
  for (const auto& each :
       RecipeOptions{{"--images", "1"}, {"--image-size", "1001x1001"}, {"--freeze", "vision,projector"}})
    EXPECT_THAT(options, Contains(each));
  // It does not fit into the samples, or its training is not known.
  EXPECT_THAT(swift_not_planned(image + "--max_length 512"), Contains("MAX_PIXELS"));
  EXPECT_THAT(swift_not_planned("MAX_PIXELS=1003520 swift rlhf --model Qwen/Qwen2.5-VL-7B-Instruct"),
              Contains("MAX_PIXELS"));
}

TEST(SwiftRecipe, NamesWhatItDoesNotPlan) {
  for (const char* flag :
       {"--tuner_backend unsloth", "--optimizer muonclip", "--callbacks activation_cpu_offload",
        "--task_type seq_cls", "--max_pixels 1003520", "--trainable_parameters_regex x",
        "--target_parameters experts", "--use_galore true", "--zero_hpz_partition_size 8",
        "--attn_impl flex_attention"})
    EXPECT_THAT(swift_not_planned(kSft + flag), Not(IsEmpty())) << flag;
  for (const char* flag : {"--tuner_backend peft", "--optimizer multimodal", "--task_type causal_lm",
                           "--use_galore false", "--lora_alpha 32"})
    EXPECT_THAT(swift_not_planned(kSft + flag), IsEmpty()) << flag;
  EXPECT_THAT(swift_not_planned("MAX_PIXELS=1003520 " + kSft), Contains("MAX_PIXELS"));
}

// Source: sft_args.py _check_padding_free.
TEST(SwiftRecipe, LeavesPaddingOutWithFlashAttentionAlone) {
  EXPECT_THAT(swift_error(kSft + "--packing true"),
              HasSubstr("packing: without attn_impl; accepted: with attn_impl flash_attn"));
  EXPECT_THAT(swift_error(kSft + "--padding_free true --attn_impl sdpa"),
              HasSubstr("padding_free: with attn_impl"));
  EXPECT_THAT(swift_error(kSft + "--packing true --attn_impl flash_attention_2"), IsEmpty());
}

TEST(SwiftRecipe, IsStartedInItsOwnWords) {
  const Folder folder;
  const std::string yaml =
      folder.write("run.yaml", "model: Qwen/Qwen3-0.6B\ntuner_type: lora\nmax_length: 512\n");
  EXPECT_THAT(in_detail("--gpus 4 --mem 80 --recipe " + yaml).out,
              HasSubstr("\nNext\n  NPROC_PER_NODE=4 swift sft " + yaml + "\n"));
  EXPECT_THAT(in_detail("--gpus 1 --mem 80 --recipe " + yaml).out,
              HasSubstr("\nNext\n  swift sft " + yaml + "\n"));
  const std::string script = folder.write("run.sh",
                                          "NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --tuner_type "
                                          "full --deepspeed zero2 --max_length 2048\n");
  EXPECT_THAT(in_detail("--gpu H100-SXM-80GB --recipe " + script).out,
              HasSubstr("\nNext\n  bash " + script + "\n"));
  // A recipe that does not fit is written anew.
  const std::string out = in_detail("--mem 40 --recipe " + script).out;
  EXPECT_THAT(out, HasSubstr("--recipe-out new.sh\n  bash new.sh\n"));
}

TEST(SwiftRecipe, CountsTheGpusOfLaunchers) {
  EXPECT_THAT(
      swift_options("deepspeed --include worker-0:0,1@worker-1:2,3 swift/cli/sft.py --model Qwen/Qwen3-8B"),
      testing::IsSupersetOf(RecipeOptions{{"--gpus", "4"}, {"--nodes", "2"}}));
  EXPECT_THAT(swift_error("CUDA_VISIBLE_DEVICES=0,1 deepspeed swift/cli/sft.py --model Qwen/Qwen3-8B"),
              IsEmpty());
  EXPECT_THAT(swift_not_planned("deepspeed --hostfile=hosts.txt swift/cli/sft.py --model Qwen/Qwen3-8B"),
              Contains("hostfile"));
}

TEST(SwiftRecipe, ReadsItsEnvironment) {
  EXPECT_THAT(swift_options("PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' " + kSft),
              Contains(Pair("--expandable-segments", testing::_)));
}

TEST(SwiftRecipe, SaysWhatAFileDoesThatTrainsNothing) {
  const auto error_in_yaml = [](const std::string& text) {
    try {
      static_cast<void>(read_recipe(text, "x.yaml", {}));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_in_yaml("model: m\nattn_impl: sdpa\ninfer_backend: vllm\n"),
              HasSubstr("x.yaml:3: infer_backend: ms-swift runs a model, it trains nothing; accepted: a "
                        "command that trains (swift pt, sft, rlhf)"));
  EXPECT_THAT(error_in_yaml("model: m\nsampler_type: distill\nsampler_engine: client\n"),
              HasSubstr("it trains nothing"));
  EXPECT_THAT(error_in_yaml("model: m\ntuner_type: lora\nattn_impl: sdpa\ntensor_model_parallel_size: 2\n"),
              HasSubstr("x.yaml:4: tensor_model_parallel_size: an argument of megatron pt, sft, rlhf"));
}

}  // namespace
}  // namespace zplan::test
