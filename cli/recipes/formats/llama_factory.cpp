// LLaMA-Factory's arguments. Source: LLaMA-Factory 0.9.5 hparams/*.py.

#include <fmt/format.h>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"
#include "models/base/names.h"

namespace zplan {

namespace {

/// Stage dpo is any of the losses over pairs.
RecipeOptions preference(const RecipePlace& place) {
  if (place.other("stage") != "dpo" || place.value.kind == RecipeKind::nothing) return {};
  return as_word(place);
}

/// bitsandbytes or HQQ packs as the model is loaded; bitsandbytes' 4 bits are doubly quantised unless told
/// otherwise. Source: LLaMA-Factory 0.9.5 model/model_utils/quantization.py configure_quantization.
RecipeOptions bits(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  // Weights that are packed already stay so.
  if (const RecipeValue* model = place.text.root.find("model_name_or_path");
      model != nullptr && unpacked_name(model->text) != model->text)
    return {};
  const std::string method = lower_case(place.other("quantization_method"));
  if (method == "hqq") return hqq_bits(place);
  if (!method.empty() && method != "bnb" && method != "bitsandbytes")
    place.fail(fmt::format("with quantization_method {}", in_quotes(method)), "accepted: with bnb, hqq");
  const std::string bits = place.scalar();
  if (bits == "8") return {{"--method", "qlora"}, {"--quantization", "int8"}};
  if (bits != "4") place.fail(in_quotes(bits), "accepted: 4, 8");
  const RecipeValue* twice = place.text.root.find("double_quantization");
  const bool single = twice != nullptr && !place.is_on("double_quantization");
  // Packed values are stored in the type that computes.
  const std::string_view storage = place.is_on("bf16") || place.is_on("pure_bf16") ? "bf16"
                                   : place.is_on("fp16")                           ? "fp16"
                                                                                   : "fp32";
  return {{"--method", "qlora"},
          {"--quantization", single ? "nf4" : "nf4-double"},
          {"--quant-storage", std::string(storage)}};
}

RecipeOptions cached_checkpoint(const RecipePlace& place) {
  return place.is_on("disable_gradient_checkpointing") ? RecipeOptions{{"--checkpointing", "none"}}
                                                       : RecipeOptions{{"--checkpointing", "full"}};
}

std::vector<RecipeRow> llama_factory_rows() {
  std::vector<RecipeRow> all{
      {"model_name_or_path", "--model", as_model},
      {"stage",
       "--objective",
       as_word,
       {{"sft", "sft"}, {"pt", "sft"}, {"dpo", "dpo"}, {"kto", "kto"}, {"rm", "reward"}}},
      {"pref_loss",
       "--objective",
       preference,
       {{"sigmoid", "dpo"},
        {"hinge", "dpo"},
        {"ipo", "dpo"},
        {"kto_pair", "dpo"},
        {"orpo", "orpo"},
        {"simpo", "simpo"}}},
      {"finetuning_type", "--method", as_word, {{"lora", "lora"}, {"full", "full"}}},
      {"quantization_method", "", as_word, {{"bnb", ""}, {"bitsandbytes", ""}, {"hqq", ""}}},
      {"quantization_bit", "", bits},
      {"model_name_or_path", "--quantization", as_packed_model},
      {"quantization_type", "", as_word, {{"nf4", ""}}},
      {"double_quantization", "", as_word, {{"true", ""}, {"false", ""}}},
      {"lora_rank", "--lora-rank", as_text},
      {"lora_dropout", "--lora-dropout", as_text},
      {"lora_target", "--lora-targets", as_targets},
      {"additional_target", "--modules-to-save", as_list},
      {"use_dora", "--dora", as_flag},
      {"cutoff_len", "--seq", as_text},
      {"disable_gradient_checkpointing", "--checkpointing", cached_checkpoint},
      {"flash_attn",
       "--attention",
       as_word,
       {{"auto", ""},
        {"disabled", "eager"},
        {"sdpa", "sdpa"},
        {"fa2", "flash"},
        {"fa3", "flash"},
        {"flash_attention_2", "flash"},
        {"flash_attention_3", "flash"}}},
      {"enable_liger_kernel", "", as_word, {{"true", "--fused-loss --kernels liger"}, {"false", ""}}},
      {"pure_bf16", "", as_word, {{"true", "--precision bf16 --no-master-weights"}, {"false", ""}}},
      {"use_unsloth", "", nullptr, {}, "Unsloth's kernels"},
      {"use_unsloth_gc", "", nullptr, {}, "checkpointed inputs in host memory"},
      {"use_galore", "", nullptr, {}, "GaLore's projected states"},
      {"use_apollo", "", nullptr, {}, "APOLLO's projected states"},
      {"use_badam", "", nullptr, {}, "BAdam trains one block at a time"},
      {"use_adam_mini", "", nullptr, {}, "Adam-mini's states"},
      {"use_muon", "--optimizer", as_word, {{"true", "muon"}, {"false", ""}}},
      {"use_llama_pro", "", nullptr, {}, "which blocks are trained"},
      {"upcast_layernorm", "", nullptr, {}, "norms in fp32"},
      {"upcast_lmhead_output", "", nullptr, {}, "logits in fp32"},
      {"shift_attn", "", nullptr, {}, "S²-attention over groups of the sequence"},
      {"mixture_of_depths", "", nullptr, {}, "layers that skip tokens"},
  };
  for (RecipeRow& each : training_arguments_rows())
    if (!each.key.ends_with("_checkpointing")) all.push_back(std::move(each));
  return all;
}

/// Source: LLaMA-Factory 0.9.5 launcher.py.
std::vector<RecipeCommand> llama_factory_commands() {
  return {{.words = "llamafactory-cli train", .config = "first"},
          {.words = "llamafactory-cli api", .does = "serves a model"},
          {.words = "llamafactory-cli chat", .does = "runs a model"},
          {.words = "llamafactory-cli export", .does = "merges or quantizes a model"},
          {.words = "llamafactory-cli eval", .does = "evaluates a model"},
          {.words = "llamafactory-cli webchat", .does = "serves a model in a web page"},
          {.words = "llamafactory-cli webui", .does = "opens a web page"},
          {.words = "llamafactory-cli env", .does = "prints versions"},
          {.words = "llamafactory-cli version", .does = "prints a version"},
          {.words = "lmf train", .config = "first"},
          {.words = "lmf export", .does = "merges or quantizes a model"}};
}

}  // namespace

const RecipeTable& llama_factory_table() {
  static const RecipeTable table{
      .format = RecipeFormat::llama_factory,
      .title = "LLaMA-Factory",
      .trainers = "llama-factory",
      .defaults = {{"finetuning_type", "--method", "lora"},
                   {"per_device_train_batch_size", "--micro-batch", "8"},
                   {"cutoff_len", "--seq", "2048"},
                   {"bf16", "--precision", "fp32"},
                   {"deepspeed", "--framework", "torch"}},
      .rows = llama_factory_rows(),
      .telling = {"finetuning_type", "cutoff_len", "lora_target", "dataset_dir", "overwrite_cache", "stage"},
      .commands = llama_factory_commands(),
      .trains_nothing = {},
      .trains = "a command that trains (llamafactory-cli train)"};
  return table;
}

}  // namespace zplan
