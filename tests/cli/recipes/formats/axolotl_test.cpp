// axolotl's configs, key by key.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/recipes/formats/recipe_support.h"

namespace zplan::test::of_axolotl {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kModel = "base_model: Qwen/Qwen3-8B\n";
const std::string kLora = kModel + "adapter: lora\nlora_r: 8\nlora_target_linear: true\n";

json planned_of(const std::string& text, const std::string& options = {}) {
  return planned_as(text, "axolotl.yaml", options);
}
json trained(const std::string& text, const std::string& options = {}) {
  return training_of(text, "axolotl.yaml", options);
}
json chosen(const std::string& text, const std::string& options = {}) {
  return strategy_of(text, "axolotl.yaml", options);
}

TEST(Axolotl, PluginsTurnTheirLossOn) {
  const std::string cut = "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n";
  EXPECT_EQ(trained(kLora + cut).at("fused_loss"), true);
  EXPECT_EQ(trained(kLora + cut + "cut_cross_entropy: false\n").at("fused_loss"), false);
  const json alone = planned_of(kLora + "cut_cross_entropy: true\n");
  EXPECT_EQ(alone.at("training").at("fused_loss"), false);
  EXPECT_THAT(not_planned(alone), HasSubstr("cut_cross_entropy"));
  EXPECT_THAT(not_planned(planned_of(kLora + "plugins: [my.own.Plugin]\n")), HasSubstr("plugins"));
}

TEST(Axolotl, LossesOfNextTokensHaveNoPartInPairs) {
  const std::string cut = "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n";
  const json pairs = trained(kLora + cut + "rl: dpo\n");
  EXPECT_EQ(pairs.at("objective"), "dpo");
  EXPECT_EQ(pairs.at("fused_loss"), false);
}

TEST(Axolotl, CutsTheLossOfAModelByAnalogy) {
  const std::string model =
      "base_model: LiquidAI/LFM2-350M\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n";
  const std::string cut = "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n";
  EXPECT_EQ(trained(model + cut).at("fused_loss"), true);
  EXPECT_EQ(trained(model + "rl: dpo\n").at("objective"), "dpo");
}

TEST(Axolotl, ANameTellsNoPackingThatTheRecipeTells) {
  const std::string model = "base_model: axolotl-quants/Llama-4-Scout-17B-16E-Linearized-bnb-nf4-bf16\n";
  const json plan = planned_of(model + "adapter: qlora\nload_in_4bit: true\nlora_target_linear: true\n");
  EXPECT_EQ(plan.at("training").at("quantization"), "nf4-double");
  EXPECT_EQ(plan.at("model").at("name"), "axolotl-quants/Llama-4-Scout-17B-16E-Linearized-bnb-nf4-bf16");
}

TEST(Axolotl, LigersLayersNeedTheirPlugin) {
  const std::string liger = "plugins: [axolotl.integrations.liger.LigerPlugin]\n";
  EXPECT_EQ(trained(kLora + liger + "liger_rms_norm: true\nliger_glu_activation: true\n").at("kernels"),
            "liger");
  EXPECT_FALSE(trained(kLora + "liger_rms_norm: true\nliger_glu_activation: true\n").contains("kernels"));
  const json norms = planned_of(kLora + liger + "liger_rms_norm: true\n");
  EXPECT_FALSE(norms.at("training").contains("kernels"));
  EXPECT_THAT(not_planned(norms), HasSubstr("liger_rms_norm"));
}

TEST(Axolotl, FsdpKeysStandWithAndWithoutPrefix) {
  const std::string rest = "fsdp_version: 2\nfsdp_config:\n";
  for (const char* prefix : {"", "fsdp_"}) {
    const auto key = [&](const std::string& name) { return "  " + (prefix + name) + ": "; };
    const std::string text = kModel + rest + key("reshard_after_forward") + "false\n" +
                             key("activation_checkpointing") + "true\n" + key("offload_params") + "true\n";
    const json strategy = chosen(text, "--gpus 8");
    EXPECT_EQ(strategy.at("framework"), "fsdp") << prefix;
    EXPECT_EQ(strategy.at("zero_stage"), 2) << prefix;
    EXPECT_EQ(strategy.at("activation_checkpointing"), "full") << prefix;
    EXPECT_EQ(strategy.at("offload_parameters"), "cpu") << prefix;
  }
}

// axolotl's own fsdp2_prepare_model leaves bf16 weights as they are, accelerate's FSDP1 makes fp32 of them.
TEST(Axolotl, Fsdp2TrainsBf16Weights) {
  const std::string section = "fsdp_config:\n  reshard_after_forward: true\n";
  const json second = planned_of(kModel + "fsdp_version: 2\n" + section, "--gpus 8");
  EXPECT_EQ(second.at("training").at("master_weights"), false);
  EXPECT_THAT(not_planned(second), Not(HasSubstr("fsdp_config")));
  const json first = planned_of(kModel + section, "--gpus 8");
  EXPECT_EQ(first.at("training").at("master_weights"), true);
  EXPECT_THAT(not_planned(first), HasSubstr("fsdp_config"));
  EXPECT_EQ(planned_of(kModel + "fsdp_config:\n  fsdp_version: 2\n", "--gpus 8")
                .at("training")
                .at("master_weights"),
            false);
}

TEST(Axolotl, DegreesOfParallelismAreUsedOrNamed) {
  const std::string fsdp = kModel + "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n";
  EXPECT_EQ(chosen(fsdp + "sequence_parallel_degree: 2\n", "--gpus 8").at("context_parallel"), 2);
  EXPECT_EQ(chosen(fsdp + "sequence_parallel_degree: 2\ncontext_parallel_size: 4\n", "--gpus 8")
                .at("context_parallel"),
            4);
  EXPECT_THAT(not_planned(planned_of(kModel + "context_parallel_size: 2\n", "--gpus 8")),
              HasSubstr("context_parallel_size"));
  EXPECT_EQ(chosen(fsdp + "dp_replicate_size: 2\n", "--gpus 8").at("dp_replicate"), 2);
  EXPECT_EQ(chosen(fsdp + "dp_shard_size: 2\n", "--gpus 8").at("dp_replicate"), 4);
  EXPECT_FALSE(chosen(fsdp + "dp_shard_size: 8\n", "--gpus 8").contains("dp_replicate"));
  EXPECT_THAT(not_planned(planned_of(fsdp + "tensor_parallel_size: 2\n", "--gpus 8")),
              HasSubstr("tensor_parallel_size"));
  EXPECT_EQ(chosen(fsdp + "tensor_parallel_size: 2\n", "--gpus 8").at("tensor_parallel"), 2);
  EXPECT_EQ(
      chosen(fsdp + "tensor_parallel_size: 2\ncontext_parallel_size: 2\n", "--gpus 8").at("context_parallel"),
      2);
}

// bitsandbytes packs into 4 bits under qlora alone, into 8 under lora alone.
TEST(Axolotl, PacksWhatItsAdapterPacks) {
  const auto packed = [](const std::string& text) {
    const json training = trained(kModel + "lora_r: 8\nlora_target_linear: true\n" + text);
    return training.at("quantization").is_null() ? "none" : training.at("quantization").get<std::string>();
  };
  EXPECT_EQ(packed("adapter: qlora\nload_in_4bit: true\n"), "nf4-double");
  EXPECT_EQ(
      packed("adapter: qlora\nload_in_4bit: true\nbnb_config_kwargs: {bnb_4bit_use_double_quant: false}\n"),
      "nf4");
  EXPECT_EQ(packed("adapter: lora\nload_in_8bit: true\n"), "int8");
  EXPECT_EQ(packed("adapter: lora\nload_in_4bit: true\n"), "none");
  EXPECT_THAT(not_planned(planned_of(kLora + "load_in_4bit: true\n")), HasSubstr("load_in_4bit"));
  EXPECT_THAT(refused(kModel + "load_in_4bit: true\n", "axolotl.yaml"),
              HasSubstr("load_in_4bit: without an adapter; accepted: with adapter: lora or qlora"));
}

TEST(Axolotl, UnpackedCheckpointsArePlannedIn16Bits) {
  const std::string packing = "model_quantization_config: Mxfp4Config\n";
  EXPECT_EQ(trained(kLora + packing + "model_quantization_config_kwargs: {dequantize: true}\n").at("method"),
            "lora");
  EXPECT_THAT(refused(kLora + packing, "axolotl.yaml"), HasSubstr("dequantize: true"));
}

TEST(Axolotl, ReadsItsTypes) {
  EXPECT_EQ(trained(kModel + "float16: true\nbf16: false\n").at("precision"), "fp16");
  EXPECT_EQ(trained(kModel + "fp16: true\n").at("precision"), "fp16");
  EXPECT_EQ(trained(kModel + "fp16: true\nbf16: true\n").at("precision"), "bf16");
  EXPECT_EQ(trained(kModel + "fp16: true\nbf16: auto\n").at("precision"), "fp16");
  EXPECT_EQ(trained(kModel + "bf16: false\n").at("precision"), "fp32");
  EXPECT_EQ(trained(kModel).at("precision"), "bf16");
}

TEST(Axolotl, ReadsItsAttention) {
  const auto kernel = [](const std::string& said) { return trained(kLora + said).at("attention"); };
  EXPECT_EQ(kernel("attn_implementation: kernels-community/vllm-flash-attn3@v1\n"), "flash");
  EXPECT_EQ(kernel("sdp_attention: true\n"), "sdpa");
  EXPECT_EQ(kernel("eager_attention: true\nflash_attention: true\n"), "flash");
  EXPECT_THAT(not_planned(planned_of(kLora + "flex_attention: true\n")), HasSubstr("flex_attention"));
  EXPECT_THAT(not_planned(planned_of(kLora + "attn_implementation: sage\n")),
              HasSubstr("attn_implementation"));
}

// With adapters activations that wait in host memory are not computed again; under DeepSpeed inputs of
// layers are planned there.
TEST(Axolotl, OffloadedActivations) {
  const std::string full = kModel + "gradient_checkpointing: true\nactivation_offloading: true\n";
  EXPECT_THAT(not_planned(planned_of(full)), HasSubstr("activation_offloading"));
  const json moved = chosen(kLora + "gradient_checkpointing: offload\n", "--gpus 1");
  EXPECT_EQ(moved.at("checkpoint_offload"), "trl");
  EXPECT_EQ(moved.at("activation_checkpointing"), "none");
  EXPECT_EQ(
      chosen(full + "deepspeed: deepspeed_configs/zero3_bf16.json\n", "--gpus 8").at("checkpoint_offload"),
      "alst");
}

TEST(Axolotl, KnowsItsOwnDeepSpeedConfigs) {
  const json plain = chosen(kModel + "deepspeed: deepspeed_configs/zero2.json\n", "--gpus 8");
  EXPECT_EQ(plain.at("zero_stage"), 2);
  EXPECT_EQ(plain.at("offload_optimizer"), "none");
  EXPECT_EQ(chosen(kModel + "deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_all.json\n", "--gpus 8")
                .at("offload_parameters"),
            "cpu");
}

TEST(Axolotl, TheWholeBatchSaysTheAccumulation) {
  const std::string batches = kLora + "micro_batch_size: 2\nbatch_size: 8\n";
  EXPECT_EQ(chosen(batches + "gradient_accumulation_steps:\n").at("gradient_accumulation_steps"), 4);
  const json unsaid = planned_of(batches);
  EXPECT_EQ(unsaid.at("plans").at(0).at("strategy").at("gradient_accumulation_steps"), 1);
  EXPECT_THAT(not_planned(unsaid), HasSubstr("batch_size"));
  EXPECT_EQ(chosen(kLora + "micro_batch_size: 2\nbatch_size: 8\ngradient_accumulation_steps: 3\n")
                .at("gradient_accumulation_steps"),
            3);
}

TEST(Axolotl, ReadsGrpo) {
  const json training =
      trained(kLora +
              "rl: grpo\nsequence_len: 1024\ntrl:\n  num_generations: 4\n  max_completion_length: 256\n"
              "  use_vllm: true\n  beta: 0.01\n");
  EXPECT_EQ(training.at("objective"), "grpo");
  EXPECT_EQ(training.at("reference"), "adapters-off");
  EXPECT_EQ(training.at("sequence_length"), 1024);
  EXPECT_EQ(training.at("rollout").at("generations"), 4);
  EXPECT_EQ(training.at("rollout").at("completion_length"), 256);
  EXPECT_EQ(training.at("rollout").at("engine"), "server");
}

// Its rewards are features of the model without adapters; strided, it generates within documents.
TEST(Axolotl, ReadsEnergyBasedFineTuning) {
  const json training = trained(
      kLora + "rl: ebft\nsequence_len: 1024\ntrl:\n  num_generations: 4\n  max_completion_length: 256\n");
  EXPECT_EQ(training.at("objective"), "grpo");
  EXPECT_EQ(training.at("reference"), "adapters-off");
  EXPECT_EQ(training.at("rollout").at("engine"), "trainer");
  const json strided = trained(kLora + "rl: ebft\nsequence_len: 256\nebft:\n  mode: strided\n");
  EXPECT_FALSE(strided.contains("objective"));
  EXPECT_EQ(strided.at("sequence_length"), 256);
}

TEST(Axolotl, NamesWhatNoPlanKnows) {
  for (const char* key :
       {"lora_target_parameters: [experts.down_proj]", "quantize_moe_experts: true",
        "unfrozen_parameters: ['lm_head']", "use_kernels: true", "process_reward_model: true",
        "model_config: {num_hidden_layers: 2}", "fp8: true", "neftune_noise_alpha: 5",
        "processor_type: AutoProcessor", "lora_rank_pattern: {q_proj: 4}"}) {
    const std::string name = std::string(key).substr(0, std::string(key).find(':'));
    EXPECT_THAT(not_planned(planned_of(kLora + key + "\n")), HasSubstr(name)) << key;
  }
}

// The kernels come by themselves, but not for what they do not run with.
TEST(Axolotl, TurnsAdapterKernelsOn) {
  EXPECT_THAT(not_planned(planned_of(kLora)), HasSubstr("lora_*_kernel"));
  for (const char* off : {"lora_mlp_kernel: false\n", "trust_remote_code: true\n", "load_in_8bit: true\n"})
    EXPECT_THAT(not_planned(planned_of(kLora + off)), Not(HasSubstr("lora_*_kernel"))) << off;
  EXPECT_THAT(not_planned(planned_of(kModel)), Not(HasSubstr("lora_*_kernel")));
}

}  // namespace
}  // namespace zplan::test::of_axolotl
