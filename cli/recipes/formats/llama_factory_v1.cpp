// Arguments of LLaMA-Factory's trainer of its own (v1), which transformers' Trainer has no part in.
// Source: LLaMA-Factory 0.9.6.dev0 v1/config/*.py, v1/core/, v1/plugins/.

#include <fmt/format.h>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"
#include "models/base/names.h"

namespace zplan {

namespace {

/// Notes a key, or the section that it is of.
void note_v1(const RecipePlace& place, std::string why) {
  const std::string key(place.row.key.substr(0, place.row.key.find('.')));
  place.recipe.not_planned.push_back({key, place.value.line, std::move(why)});
}

/// True if `text` has the word, between anything but letters.
bool has_word(const std::string& text, std::string_view word) {
  const auto is_letter = [&](std::size_t at) {
    return at < text.size() && ((text[at] >= 'a' && text[at] <= 'z') || (text[at] >= 'A' && text[at] <= 'Z'));
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  return false;
}

/// Full training casts the model to fp32. Nothing but a distributed backend computes in 16 bits.
bool computes_in_fp32(const RecipePlace& place) {
  return place.other("peft_config.name").empty() && place.other("dist_config.name").empty();
}

/// The loss copies fp32 logits of all tokens but each sample's last. Source: v1/core/base_trainer.py
/// compute_log_probs.
RecipeOptions model_v1(const RecipePlace& place) {
  RecipeOptions options = as_model(place);
  if (computes_in_fp32(place)) options.emplace_back("--precision", "fp32");
  return options;
}

/// The command says the objective (llamafactory-cli sft, dpo, rm), not the file; its data do.
RecipeOptions data_v1(const RecipePlace& place) {
  const std::string data = lower_case(place.scalar());
  if (place.other("model_class") == "cls") return {};
  for (const std::string_view pairs : {"dpo", "orpo", "simpo"})
    if (has_word(data, pairs)) {
      note_v1(place, "pairs of answers, by the name of the data: planned as DPO of TRL's loss");
      return {{"--objective", "dpo"}};
    }
  return {{"--loss-shift", "logits"}};
}

RecipeOptions preference_v1(const RecipePlace& place) {
  if (!has_word(lower_case(place.other("train_dataset")), "dpo")) return {};
  return as_word(place);
}

/// Source: v1/plugins/model_plugins/peft.py LoraParams, FreezeParams.
RecipeOptions peft_v1(const RecipePlace& place) {
  const std::string name = lower_case(place.scalar());
  if (name == "freeze") {
    note_v1(place, "freeze tuning trains some layers: planned as if all weights did");
    return {{"--method", "full"}};
  }
  if (name != "lora") place.fail(in_quotes(name), "accepted: lora, freeze");
  RecipeOptions options{{"--method", "lora"}};
  const auto fill = [&](const char* key, const char* option, const char* value) {
    if (place.text.root.find_path(fmt::format("peft_config.{}", key)) == nullptr)
      options.emplace_back(option, value);
  };
  fill("r", "--lora-rank", "8");
  fill("lora_dropout", "--lora-dropout", "0.05");
  fill("target_modules", "--lora-targets", "all-linear");
  return options;
}

/// Source: v1/plugins/model_plugins/quantization.py BnbParams.
RecipeOptions quantised_v1(const RecipePlace& place) {
  const std::string name = lower_case(place.scalar()), bits = place.other("quant_config.quantization_bit");
  if (name.empty() || (name == "auto" && bits.empty())) return {};
  if (name != "auto" && name != "bnb") place.fail(in_quotes(name), "accepted: auto, bnb");
  if (bits == "8") return {{"--method", "qlora"}, {"--quantization", "int8"}};
  const RecipeValue* twice = place.text.root.find_path("quant_config.double_quantization");
  const bool single = twice != nullptr && !place.is_on("quant_config.double_quantization");
  const std::string type = place.other("quant_config.compute_dtype");
  return {{"--method", "qlora"},
          {"--quantization", single ? "nf4" : "nf4-double"},
          {"--quant-storage", type == "bfloat16"  ? "bf16"
                              : type == "float32" ? "fp32"
                                                  : "fp16"}};
}

RecipeOptions kernels_v1(const RecipePlace& place) {
  const std::string names = place.scalar();
  if (names.find("liger") != std::string::npos) return {{"--kernels", "liger"}};
  if (names.find("flash-linear-attention") != std::string::npos) return {{"--kernels", "fla"}};
  return {};
}

/// Source: v1/plugins/trainer_plugins/distributed/interface.py.
RecipeOptions distributed_v1(const RecipePlace& place) {
  const std::string name = lower_case(place.scalar());
  if (name == "deepspeed") return {{"--framework", "deepspeed"}};
  if (name == "fsdpturbo")
    note_v1(place, "FSDPTurbo's own sharding: planned as FSDP2");
  else if (name != "fsdp2")
    place.fail(in_quotes(name), "accepted: fsdp2, fsdpturbo, deepspeed");
  return {{"--framework", "fsdp"}, {"--zero", "3"}};
}

RecipeOptions optimizer_v1(const RecipePlace& place) {
  const std::string name = lower_case(place.scalar());
  if (name != "muon") place.fail(in_quotes(name), "accepted: muon");
  if (place.other("dist_config.name") == "deepspeed") return {{"--optimizer", "muon"}};
  note_v1(place, "Muon's momentum: planned as AdamW, whose states take more");
  return {};
}

RecipeOptions ranks_v1(const RecipePlace& place) {
  const std::string ranks = place.scalar();
  if (ranks.empty() || ranks == "1") return {};
  note_v1(place, place.row.key == "cp_size"
                     ? fmt::format("sequences over {} ranks ({}): planned whole on each", ranks,
                                   place.other("cp_mode").empty() ? "ulysses" : place.other("cp_mode"))
                     : fmt::format("{} ranks: planned as one group of all GPUs", ranks));
  return {};
}

RecipeOptions batches_v1(const RecipePlace& place) {
  const std::string strategy = place.scalar();
  if (strategy != "normal") note_v1(place, fmt::format("{}: planned as padded batches", strategy));
  return {};
}

std::vector<RecipeRow> rows_v1() {
  return {
      {"bf16", "--precision", as_word, {{"true", "bf16"}, {"false", "fp32"}}},
      {"model", "--model", model_v1},
      {"model_class", "--objective", as_word, {{"llm", ""}, {"cls", "reward"}, {"other", ""}}},
      {"train_dataset", "", data_v1},
      {"pref_loss", "--objective", preference_v1, {{"sigmoid", "dpo"}, {"orpo", "orpo"}, {"simpo", "simpo"}}},
      {"flash_attn",
       "--attention",
       as_word,
       {{"eager", "eager"},
        {"sdpa", "sdpa"},
        {"flash_attention_2", "flash"},
        {"flash_attention_3", "flash"}}},
      {"peft_config.name", "--method", peft_v1},
      {"peft_config.r", "--lora-rank", as_text},
      {"peft_config.lora_dropout", "--lora-dropout", as_text},
      {"peft_config.target_modules", "--lora-targets", as_targets},
      {"peft_config.modules_to_save", "--modules-to-save", as_list},
      {"peft_config.use_dora", "--dora", as_flag},
      {"quant_config.name", "", quantised_v1},
      {"quant_config.quantization_bit", "", as_word, {{"4", ""}, {"8", ""}}},
      {"kernel_config.name", "", kernels_v1},
      {"dist_config.name", "--framework", distributed_v1},
      {"dist_config.config_file", "--ds-config", as_ds_config},
      {"dist_config.reshard_after_forward", "--zero", as_word, {{"true", "3"}, {"false", "2"}}},
      {"dist_config.offload_params", "--offload", as_word, {{"true", "all"}, {"false", ""}}},
      {"dist_config.ep_size", "", ranks_v1},
      {"optim_config.name", "--optimizer", optimizer_v1},
      {"micro_batch_size", "--micro-batch", as_text},
      {"global_batch_size", "--global-batch", as_text},
      {"cutoff_len", "--seq", as_text},
      {"num_train_epochs", "--epochs", as_text},
      {"batching_strategy", "", batches_v1},
      {"enable_activation_checkpointing", "--checkpointing", as_word, {{"true", "full"}, {"false", "none"}}},
      {"cp_size", "", ranks_v1},
      {"mp_replicate_size", "", ranks_v1},
      {"mp_shard_size", "", ranks_v1},
      {"pref_ftx", "", nullptr, {}, "a loss of the chosen answers beside that of pairs"},
      {"save_ckpt_as_hf", "", nullptr, {}, "a copy of the weights while they are saved"},
  };
}

std::string command_v1(const Recipe& /*recipe*/, std::int64_t /*gpus*/, std::string_view objective) {
  const std::string_view command = objective == "sft" ? "sft" : objective == "reward" ? "rm" : "dpo";
  return fmt::format("USE_V1=1 llamafactory-cli {} {{file}}", command);
}

}  // namespace

const RecipeTable& llama_factory_v1_table() {
  static const RecipeTable table{
      .format = RecipeFormat::llama_factory_v1,
      .title = "LLaMA-Factory v1",
      .trainers = "",
      .defaults = {{"micro_batch_size", "--micro-batch", "1"},
                   {"cutoff_len", "--seq", "2048"},
                   {"peft_config", "--method", "full"},
                   {"bf16", "--precision", "bf16"},
                   {"flash_attn", "--attention", "sdpa"},
                   {"enable_activation_checkpointing", "--checkpointing", "full"},
                   {"optim_config", "--optimizer-kernel", "foreach"},
                   {"dist_config", "--framework", "torch"}},
      .rows = rows_v1(),
      .telling = {"dist_config", "kernel_config", "model_class", "sample_backend", "init_config",
                  "peft_config.name", "train_dataset", "batching_strategy"},
      .commands = {},
      .trains_nothing = {{.key = "peft_config.export_dir", .does = "merges adapters into a model"},
                         {.key = "", .unless = "train_dataset", .does = "runs a model"}},
      .trains = "a config of a training, which names train_dataset",
      .launches = command_v1};
  return table;
}

}  // namespace zplan
