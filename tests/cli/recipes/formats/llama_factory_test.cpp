// LLaMA-Factory's arguments, and those of its v1, as they read them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

json trained(const std::string& text, const std::string& options = "--gpus 1 --mem 80") {
  const Folder folder;
  return report("--recipe " + folder.write("train.yaml", text) + " " + options);
}

std::string train_refusal(const std::string& text) {
  const Folder folder;
  const Result result = in_process("--recipe " + folder.write("train.yaml", text) + " --gpus 1 --mem 80");
  EXPECT_EQ(result.status, kBadInput) << text;
  return result.err;
}

std::vector<std::string> unplanned(const json& report) {
  std::vector<std::string> keys;
  for (const json& each : report.at("recipes").at(0).at("not_planned")) keys.push_back(each.at("key"));
  return keys;
}

double allocated_by(const json& r) {
  return r.at("plans").at(0).at("memory").at("peak_allocated").get<double>();
}

constexpr const char* kDpo =
    "model_name_or_path: Qwen/Qwen3-8B\nstage: dpo\ndo_train: true\nfinetuning_type: lora\nlora_rank: 8\n"
    "dataset: dpo_en_demo\ncutoff_len: 4096\nper_device_train_batch_size: 4\nbf16: true\n";

// Five tensors of all logits in fp32 are there at a time.
TEST(LlamaFactory, MakesFp32OfTheLogitsOfBothAnswers) {
  const double logits = 8.0 * 4096 * 151936 * 4;
  const json r = trained(kDpo, "--gpus 1 --mem 200");
  const double weights = 2 * 8.19e9, layer_inputs = 36.0 * 8 * 4096 * 4096 * 2;
  EXPECT_NEAR(allocated_by(r), 5 * logits + weights + layer_inputs, 0.02 * 5 * logits);
  EXPECT_EQ(r.at("training").at("reference"), "adapters-off");
  EXPECT_EQ(trained(std::string(kDpo) + "ref_model: Qwen/Qwen3-8B\n").at("training").at("reference"), "copy");
}

TEST(LlamaFactory, NamesMethodsThatItPlansAsOthers) {
  const std::string base =
      "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\ndataset: d\nbf16: true\n";
  const json freeze =
      trained(base + "finetuning_type: freeze\nfreeze_trainable_layers: 4\n", "--gpus 8 --mem 80");
  EXPECT_EQ(freeze.at("training").at("method"), "full");
  EXPECT_EQ(freeze.at("training").at("trained_layers").size(), 4U);
  EXPECT_THAT(unplanned(freeze), Contains("finetuning_type"));
  const json oft = trained(base + "finetuning_type: oft\noft_target: q_proj,v_proj\n");
  EXPECT_EQ(oft.at("training").at("method"), "lora");
  EXPECT_THAT(unplanned(oft), Contains("finetuning_type"));
}

TEST(LlamaFactory, ComputesAgainUnderMegatronWhereToldAlone) {
  const std::string base =
      "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: d\n"
      "bf16: true\ntensor_model_parallel_size: 1\n";
  const json plain = trained(base);
  EXPECT_EQ(plain.at("plans").at(0).at("strategy").at("activation_checkpointing"), "none");
  EXPECT_THAT(unplanned(plain), Contains("tensor_model_parallel_size"));
  const json again = trained(base + "recompute_granularity: full\n");
  EXPECT_EQ(again.at("plans").at(0).at("strategy").at("activation_checkpointing"), "full");
}

TEST(LlamaFactory, NamesWhatItDoesNotPlan) {
  const json r = trained(
      "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: "
      "d\nbf16: true\n"
      "use_unsloth_gc: true\nfp8: true\nuse_kt: true\nuse_dft_loss: true\nfreeze_language_model: true\n"
      "image_max_pixels: 262144\nneat_packing: true\nuse_apollo: false\n");
  for (const char* key : {"use_unsloth_gc", "fp8", "use_kt", "use_dft_loss", "freeze_language_model",
                          "image_max_pixels", "neat_packing"})
    EXPECT_THAT(unplanned(r), Contains(key));
  EXPECT_THAT(unplanned(r), testing::Not(Contains("use_apollo")));
}

TEST(LlamaFactory, SaysWhatTrainsNothing) {
  const std::string model = "model_name_or_path: Qwen/Qwen3-8B\ntemplate: qwen3\n";
  EXPECT_THAT(train_refusal(model + "export_dir: out\n"),
              HasSubstr("merges or quantizes a model, it trains nothing"));
  EXPECT_THAT(train_refusal(model + "infer_backend: vllm\n"), HasSubstr("runs a model, it trains nothing"));
  EXPECT_THAT(train_refusal(model + "stage: sft\nfinetuning_type: lora\ndo_predict: true\n"),
              HasSubstr("predicts with a model, it trains nothing"));
}

TEST(LlamaFactory, IsStartedByItsOwnCommand) {
  const Folder folder;
  const std::string file = folder.write("dpo.yaml", kDpo);
  EXPECT_THAT(in_process("--recipe " + file + " --gpus 1 --mem 200").out,
              HasSubstr("llamafactory-cli train " + file));
  EXPECT_THAT(in_process("--recipe " + file + " --gpus 4 --mem 200").out,
              HasSubstr("FORCE_TORCHRUN=1 llamafactory-cli train " + file));
}

constexpr const char* kV1 =
    "model: Qwen/Qwen3-4B\nmodel_class: llm\ntrain_dataset: data/v1_sft_demo.yaml\nmicro_batch_size: 2\n"
    "global_batch_size: 32\ncutoff_len: 4096\nlearning_rate: 1.0e-4\n";

TEST(LlamaFactoryV1, IsAFormatOfItsOwn) {
  const json r = trained(std::string(kV1) + "dist_config:\n  name: fsdp2\n", "--gpus 8 --mem 80");
  EXPECT_EQ(r.at("recipes").at(0).at("format"), "llama-factory-v1");
  EXPECT_EQ(r.at("recipes").at(0).at("unknown"), json::array());
  EXPECT_EQ(r.at("training").at("method"), "full");
  EXPECT_EQ(r.at("training").at("framework"), "fsdp");
  EXPECT_EQ(r.at("training").at("precision"), "bf16");
  EXPECT_EQ(r.at("training").at("attention"), "sdpa");
  EXPECT_EQ(r.at("training").at("master_weights"), true);  // the model is cast to fp32
  EXPECT_EQ(r.at("plans").at(0).at("strategy").at("gradient_accumulation_steps"), 2);
}

TEST(LlamaFactoryV1, ComputesInFp32WithoutABackend) {
  EXPECT_EQ(trained(kV1, "--gpus 1 --mem 80").at("training").at("precision"), "fp32");
  const json lora = trained(std::string(kV1) + "peft_config:\n  name: lora\n  r: 16\n", "--gpus 1 --mem 80");
  EXPECT_EQ(lora.at("training").at("precision"), "bf16");
  EXPECT_EQ(lora.at("training").at("lora_rank"), 16);
  EXPECT_EQ(lora.at("training").at("lora_dropout"), 0.05);
}

TEST(LlamaFactoryV1, NamesWhatItDoesNotPlan) {
  const json r =
      trained(std::string(kV1) +
                  "dist_config:\n  name: fsdp2\npeft_config:\n  name: freeze\n  freeze_trainable_layers: 2\n"
                  "cp_size: 2\nbatching_strategy: padding_free\n",
              "--gpus 8 --mem 80");
  for (const char* key : {"peft_config", "cp_size", "batching_strategy"})
    EXPECT_THAT(unplanned(r), Contains(key));
  EXPECT_THAT(train_refusal("model: Qwen/Qwen3-4B\npeft_config:\n  name: lora\n  export_dir: merged\n"),
              HasSubstr("merges adapters into a model, it trains nothing"));
}

}  // namespace
}  // namespace zplan::test
