// torchtune's configs, as its recipes read them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kLlama = "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n";
constexpr const char* kRest =
    "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n  max_seq_len: 2048\n"
    "optimizer:\n  _component_: torch.optim.AdamW\n  fused: True\n"
    "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\n"
    "dataset:\n  _component_: torchtune.datasets.alpaca_dataset\n"
    "batch_size: 2\ndtype: bf16\nenable_activation_checkpointing: True\n";

json tuned(const std::string& text, const std::string& options = "--gpus 1 --mem 80") {
  const Folder folder;
  return report("--recipe " + folder.write("tune.yaml", text) + " " + options);
}

std::string tune_refusal(const std::string& text) {
  const Folder folder;
  const Result result = in_process("--recipe " + folder.write("tune.yaml", text) + " --gpus 1 --mem 80");
  EXPECT_EQ(result.status, kBadInput) << text;
  return result.err;
}

std::vector<std::string> unplanned_by_tune(const json& report) {
  std::vector<std::string> keys;
  for (const json& each : report.at("recipes").at(0).at("not_planned")) keys.push_back(each.at("key"));
  return keys;
}

// bf16 is the type of weights, gradients and states, on one GPU and under torchtune's own FSDP2.
TEST(Torchtune, TrainsWithoutMasters) {
  for (const char* gpus : {"--gpus 1 --mem 80", "--gpus 4 --mem 80"}) {
    const json r = tuned(std::string(kLlama) + kRest, gpus);
    EXPECT_EQ(r.at("training").at("master_weights"), false) << gpus;
    EXPECT_EQ(r.at("training").at("precision"), "bf16") << gpus;
  }
  const json wide = tuned(std::string(kLlama) + kRest + "dtype: fp32\n", "--gpus 4 --mem 80");
  EXPECT_EQ(wide.at("training").at("precision"), "fp32");
}

TEST(Torchtune, BuildsModelsOfTheConfigsSizes) {
  const json r = tuned(
      "model:\n  _component_: torchtune.models.llama2.llama2\n  vocab_size: 32000\n  num_layers: 22\n"
      "  num_heads: 32\n  num_kv_heads: 4\n  embed_dim: 2048\n  max_seq_len: 2048\n  intermediate_dim: "
      "5632\n" +
      std::string(kRest));
  EXPECT_EQ(r.at("model").at("parameters"), 1100048384);
  EXPECT_THAT(tune_refusal("model:\n  _component_: torchtune.models.llama2.llama2\n" + std::string(kRest)),
              HasSubstr("model._component_: \"torchtune.models.llama2.llama2\""));
}

// Adapters of query and value alone need projections that transformers' Phi-3 has joined.
TEST(Torchtune, HasProjectionsOfItsOwnInPhi3) {
  const json r = tuned(
      "model:\n  _component_: torchtune.models.phi3.lora_phi3_mini\n  lora_attn_modules: ['q_proj', "
      "'v_proj']\n"
      "  lora_rank: 8\n" +
      std::string(kRest));
  EXPECT_EQ(r.at("model").at("parameters"), 3821079552);
  EXPECT_EQ(r.at("training").at("lora_targets"), json({"q_proj", "v_proj"}));
}

TEST(Torchtune, TargetsTheOutputButWhereItIsTied) {
  const auto targets = [](const std::string& builder) {
    return tuned("model:\n  _component_: torchtune.models." + builder +
                 "\n  lora_attn_modules: ['q_proj', 'output_proj']\n  apply_lora_to_output: True\n" +
                 std::string(kRest))
        .at("training")
        .at("lora_targets");
  };
  EXPECT_EQ(targets("llama2.lora_llama2_7b"), json({"q_proj", "o_proj", "lm_head"}));
  EXPECT_EQ(targets("llama3_2.lora_llama3_2_1b"), json({"q_proj", "o_proj"}));
}

TEST(Torchtune, PacksTheBaseWhereItIsTold) {
  const json r = tuned(
      "model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\n  lora_attn_modules: ['q_proj']\n"
      "  use_dora: True\n  quantize_base: True\n" +
      std::string(kRest));
  EXPECT_EQ(r.at("training").at("method"), "qlora");
  EXPECT_EQ(r.at("training").at("quantization"), "nf4-double");
  EXPECT_EQ(r.at("training").at("dora"), true);
}

// Gradients of all parameters are never there at once: 15 GiB of them on one GPU, 1.9 GiB on each of eight.
TEST(Torchtune, StepsInTheBackward) {
  const std::string text = std::string(kLlama) + kRest;
  const auto peak = [](const json& r) {
    return r.at("plans").at(0).at("memory").at("peak_allocated").get<double>();
  };
  constexpr double kGiB = 1 << 30;
  for (const auto& [gpus, less] : {std::pair{"--gpus 1 --mem 80", 6.0}, std::pair{"--gpus 8 --mem 80", 1.0}})
    EXPECT_LT(peak(tuned(text + "optimizer_in_bwd: True\n", gpus)), peak(tuned(text, gpus)) - less * kGiB)
        << gpus;
}

TEST(Torchtune, NamesWhatItDoesNotPlan) {
  const json r = tuned(std::string(kLlama) + kRest +
                           "enable_activation_offloading: True\ncompile: True\ntensor_parallel_dim: 2\n"
                           "teacher_model:\n  _component_: torchtune.models.llama3_1.llama3_1_70b\n",
                       "--gpus 4 --mem 80");
  for (const char* key : {"enable_activation_offloading", "tensor_parallel_dim", "teacher_model"})
    EXPECT_THAT(unplanned_by_tune(r), Contains(key));
  EXPECT_THAT(
      unplanned_by_tune(tuned(std::string(kLlama) + kRest + "compile: False\ntensor_parallel_dim: 1\n")),
      testing::IsEmpty());
}

// Saved activations wait in host memory, products run in 8 bits; hooks fail on compiled layers.
TEST(Torchtune, OffloadsActivationsAndMultipliesIn8Bits) {
  const std::string full =
      "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n" + std::string(kRest);
  const json r = tuned(full +
                           "enable_activation_offloading: True\nenable_fp8_training: True\n"
                           "fp8_recipe_name: rowwise\n",
                       "--gpus 4 --gpu H100-SXM-80GB");
  EXPECT_EQ(r.at("plans").at(0).at("strategy").at("checkpoint_offload"), "torchtune");
  EXPECT_EQ(r.at("training").at("float8"), "rowwise");
  EXPECT_THAT(unplanned_by_tune(r), testing::IsEmpty());
}

// torchtune compiles layer by layer; around packed weights that is not planned.
TEST(Torchtune, CompilesLayers) {
  const json r = tuned(std::string(kLlama) + kRest + "compile: True\n", "--gpus 4 --mem 80");
  EXPECT_EQ(r.at("training").at("compile"), "layer");
  EXPECT_THAT(unplanned_by_tune(r), testing::IsEmpty());
  const json packed = tuned(
      "model:\n  _component_: torchtune.models.llama3_1.qlora_llama3_1_8b\n  lora_attn_modules: [q_proj]\n" +
          std::string(kRest) + "compile: True\n",
      "--gpus 1 --mem 80");
  EXPECT_THAT(unplanned_by_tune(packed), Contains("compile"));
}

// The count is of the model that torchtune 0.7's builder makes; transformers' has 10,670,220,835.
TEST(Torchtune, EmbedsTilesOfLlama32VisionByPlace) {
  const json r = tuned(std::string("model:\n  _component_: "
                                   "torchtune.models.llama3_2_vision.llama3_2_vision_11b\n") +
                       kRest);
  EXPECT_EQ(r.at("model").at("parameters"), 10629184035);
  EXPECT_EQ(r.at("model").at("name"), "meta-llama/Llama-3.2-11B-Vision-Instruct");
}

TEST(Torchtune, ResolvesReferences) {
  const json r = tuned(std::string(kLlama) + kRest + "gradient_accumulation_steps: ${batch_size}\n");
  EXPECT_EQ(r.at("plans").at(0).at("strategy").at("gradient_accumulation_steps"), 2);
}

TEST(Torchtune, SaysWhatTrainsNothing) {
  EXPECT_THAT(
      tune_refusal(std::string(kLlama) + "tokenizer:\n  _component_: t\ntasks: [\"truthfulqa_mc2\"]\n"),
      HasSubstr("torchtune evaluates a model, it trains nothing"));
  EXPECT_THAT(tune_refusal(std::string(kLlama) + "tokenizer:\n  _component_: t\nprompt:\n  user: hi\n"),
              HasSubstr("torchtune generates with a model, it trains nothing"));
  EXPECT_THAT(
      tune_refusal(std::string(kLlama) + "checkpointer:\n  _component_: c\nquantizer:\n  _component_: q\n"),
      HasSubstr("torchtune quantizes a model, it trains nothing"));
}

TEST(Torchtune, IsStartedByTune) {
  const Folder folder;
  const std::string file = folder.write("tune.yaml", std::string(kLlama) + kRest);
  EXPECT_THAT(in_detail("--recipe " + file + " --gpus 1 --mem 80").out,
              HasSubstr("tune run full_finetune_single_device --config " + file));
  const std::string several = in_detail("--recipe " + file + " --gpus 4 --mem 80").out;
  EXPECT_THAT(several, HasSubstr("tune run --nproc_per_node 4 full_finetune_distributed --config " + file));
  EXPECT_THAT(several, Not(HasSubstr("accelerate launch")));
}

}  // namespace
}  // namespace zplan::test
