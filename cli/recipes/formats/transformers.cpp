// TrainingArguments of transformers, and scripts of others that take them beside options of their own.
// Source: transformers 5.23 training_args.py; MedicalGPT training/*.py; Qwen-VL-Series-Finetune
// src/params.py.

#include <fmt/format.h>

#include "cli/base/values.h"
#include "cli/recipes/formats/trl.h"

namespace zplan {

namespace {

/// "full_shard auto_wrap offload", a list of these, or true; the stage is fsdp_config's.
RecipeOptions fsdp_words(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  std::string words = place.value.kind == RecipeKind::scalar ? place.value.text : std::string();
  for (const RecipeValue& each : place.value.items) words += " " + each.text;
  if (const auto on = place.boolean()) words = *on ? "full_shard" : "";
  if (words.find_first_not_of(' ') == std::string::npos) return {};
  if (words.find("hybrid_shard") != std::string::npos || words.find("no_shard") != std::string::npos)
    place.fail(in_quotes(words), "accepted: full_shard, shard_grad_op, with offload and auto_wrap");
  RecipeOptions options{{"--framework", "fsdp"},
                        {"--zero", words.find("shard_grad_op") != std::string::npos ? "2" : "3"}};
  if (words.find("offload") != std::string::npos) options.emplace_back("--offload", "all");
  return options;
}

bool evaluates(const RecipePlace& place) {
  const std::string now = place.other("eval_strategy");
  const std::string strategy = now.empty() ? place.other("evaluation_strategy") : now;
  return !strategy.empty() && strategy != "no" && lower_case(strategy) != "false";
}

/// Evaluation steps are those of a run that evaluates.
RecipeOptions evaluated(const RecipePlace& place) {
  return evaluates(place) || place.is_on("do_eval") ? as_text(place) : RecipeOptions{};
}

RecipeOptions accumulated(const RecipePlace& place) {
  return evaluates(place) ? as_text(place) : RecipeOptions{};
}

/// accelerate compiles the whole model. TRL's Trainer of next tokens takes head and loss out of it.
RecipeOptions compiled_whole(const RecipePlace& place) {
  if (!place.boolean().value_or(true)) return {};
  bool is_planned = place.recipe.format != RecipeFormat::trl;
  for (const char* key :
       {"deepspeed", "fsdp", "quantization_bit", "quant_bits", "load_in_4bit", "load_in_8bit", "rlhf_type",
        "pref_loss", "use_liger_kernel", "enable_liger_kernel"})
    is_planned = is_planned && !place.is_on(key) && place.other(key).empty();
  const std::string stage = place.other("stage");
  is_planned = is_planned && (stage.empty() || stage == "sft" || stage == "pt");
  if (is_planned && !place.is_given("--framework")) return {{"--compile", "model"}};
  place.not_planned("what torch.compile fuses");
  return {};
}

RecipeOptions sampled(const RecipePlace& place) {
  if (place.scalar() == "group_by_length")
    place.not_planned("samples of like lengths in a batch: --lengths with --batching grouped");
  return {};
}

/// Keys of fsdp_config, which stand there with or without the prefix.
/// Source: transformers 5.23 training_args.py _process_fsdp_args.
RecipeOptions fsdp_version(const RecipePlace& place) {
  if (place.scalar() == "1") place.not_planned("FSDP1 is planned as FSDP2");
  return {};
}

/// TRL's PPOTrainer does not turn checkpointing on. Source: TRL 1.8 experimental/ppo/ppo_trainer.py.
RecipeOptions checkpointed(const RecipePlace& place) {
  const RecipeOptions options = as_word(place);
  if (place.other("reward_model_path").empty()) return options;
  if (place.boolean().value_or(false))
    place.not_planned("it does nothing: PPOTrainer computes no layer again");
  return {};
}

std::vector<RecipeRow> with(std::vector<RecipeRow> rows, const std::vector<RecipeRow>& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace

std::vector<RecipeRow> training_arguments_rows() {
  std::vector<RecipeRow> rows{
      {"per_device_train_batch_size", "--micro-batch", as_text},
      {"gradient_accumulation_steps", "--grad-accum", as_text},
      {"bf16", "--precision", as_word, {{"true", "bf16"}, {"false", ""}}},
      {"fp16", "--precision", as_word, {{"true", "fp16"}, {"false", ""}}},
      {"optim", "--optimizer", as_optimizer},
      {"gradient_checkpointing", "--checkpointing", checkpointed, {{"true", "full"}, {"false", "none"}}},
      {"gradient_checkpointing_kwargs.use_reentrant",
       "reentrant checkpointing",
       as_word,
       {{"true", "on"}, {"false", "off"}}},
      {"activation_checkpointing", "--checkpointing", as_word, {{"true", "full"}, {"false", "none"}}},
      {"use_liger_kernel", "", as_word, {{"true", "--fused-loss --kernels liger"}, {"false", ""}}},
      {"fsdp", "", fsdp_words},
      {"deepspeed", "--ds-config", as_ds_config},
      {"num_train_epochs", "--epochs", as_text},
      {"per_device_eval_batch_size", "--eval-batch", evaluated},
      {"eval_accumulation_steps", "--eval-accumulation", accumulated},
      {"torch_compile", "", compiled_whole},
      {"auto_find_batch_size", "", nullptr, {}, "the batch size is tried out"},
      {"neftune_noise_alpha", "", nullptr, {}, "noise on the embeddings, a copy of their output"},
      {"group_by_length",
       "",
       nullptr,
       {},
       "samples of like lengths in a batch: --lengths with --batching grouped"},
      {"train_sampling_strategy", "", sampled},
      {"torch_compile_backend", "", nullptr, {}, "what torch.compile fuses"},
      {"torch_compile_mode", "", nullptr, {}, "what torch.compile fuses"},
      {"liger_kernel_config", "", nullptr, {}, "all of Liger's kernels are planned"},
      {"parallelism_config", "", nullptr, {}, "degrees of parallelism of accelerate's"},
      {"save_only_model", "", as_word, {{"true", ""}, {"false", ""}}},
  };
  for (RecipeRow& row : fsdp_section_rows()) rows.push_back(std::move(row));
  return rows;
}

std::vector<RecipeRow> fsdp_section_rows() {
  struct Key {
    std::string_view plain, prefixed;
    RecipeRow row;
  };
  const std::vector<Key> keys{
      {"fsdp_config.version", "fsdp_config.fsdp_version", {"", "", fsdp_version}},
      {"fsdp_config.reshard_after_forward",
       "fsdp_config.fsdp_reshard_after_forward",
       {"", "--zero", as_word, {{"true", "3"}, {"false", "2"}, {"FULL_SHARD", "3"}, {"SHARD_GRAD_OP", "2"}}}},
      {"fsdp_config.sharding_strategy",
       "fsdp_config.fsdp_sharding_strategy",
       {"", "--zero", as_word, {{"FULL_SHARD", "3"}, {"1", "3"}, {"SHARD_GRAD_OP", "2"}, {"2", "2"}}}},
      {"fsdp_config.offload_params",
       "fsdp_config.fsdp_offload_params",
       {"", "--offload", as_word, {{"true", "all"}, {"false", ""}}}},
      {"fsdp_config.activation_checkpointing",
       "fsdp_config.fsdp_activation_checkpointing",
       {"", "--checkpointing", as_word, {{"true", "full"}, {"false", ""}}}},
      {"fsdp_config.state_dict_type",
       "fsdp_config.fsdp_state_dict_type",
       {"",
        "--save",
        as_word,
        {{"FULL_STATE_DICT", "full"}, {"SHARDED_STATE_DICT", "sharded"}, {"LOCAL_STATE_DICT", "sharded"}}}}};
  std::vector<RecipeRow> rows;
  for (const Key& each : keys)
    for (const std::string_view path : {each.plain, each.prefixed}) {
      rows.push_back(each.row);
      rows.back().key = path;
    }
  return rows;
}

namespace {

// ---- Options of others' scripts.

/// Prompt and answer have a length each.
RecipeOptions lengths(const RecipePlace& place) {
  constexpr std::int64_t kMost = 1 << 24;
  const auto tokens = [&](std::string_view key) {
    const std::string text = place.other(key);
    return text.empty() ? 0 : parse_integer(key, text, 1, kMost);
  };
  return {{"--seq", std::to_string(tokens("max_source_length") + tokens("max_target_length"))}};
}

RecipeOptions bits(const RecipePlace& place) {
  if (place.scalar() != "4" || place.other("quant_type") == "nf4" || place.other("quant_type").empty())
    return as_word(place);
  place.not_planned(fmt::format("{} is planned as nf4", in_quotes(place.other("quant_type"))));
  return as_word(place);
}

/// Parts of an image-text model. Beside adapters whatever is not frozen trains whole.
RecipeOptions frozen(const RecipePlace& place) {
  const bool on = place.boolean().value_or(false), with_adapters = place.is_on("lora_enable");
  if (place.row.key == "freeze_llm") {
    if (on && !with_adapters) place.not_planned("the language model is planned as trained");
    return {};
  }
  if (!on && with_adapters) place.not_planned("it is trained whole beside the adapters: planned as frozen");
  if (!on || with_adapters) return {};
  const bool both = place.is_on("freeze_vision_tower") && place.is_on("freeze_merger");
  return {{"--freeze", both ? "vision,projector" : std::string(place.row.words.front().second)}};
}

std::vector<RecipeRow> script_rows() {
  return {
      {"model_id", "--model", as_model},
      {"model_name", "--model", as_model},
      {"lora_enable", "--method", as_word, {{"true", "lora"}, {"false", ""}}},
      {"qlora", "", as_word, {{"true", "--method qlora --quantization nf4-double"}, {"false", ""}}},
      {"bits",
       "",
       bits,
       {{"4", "--method qlora --quantization nf4-double"},
        {"8", "--method qlora --quantization int8"},
        {"16", ""}}},
      {"lora_rank", "--lora-rank", as_text},
      {"target_modules", "--lora-targets", as_targets},
      {"model_max_length", "--seq", as_text},
      {"block_size", "--seq", as_text},
      {"max_target_length", "--seq", lengths},
      {"max_source_length", "--seq", lengths},
      {"flash_attn", "--attention", as_word, {{"true", "flash"}, {"false", ""}}},
      {"disable_flash_attn2", "--attention", as_word, {{"true", "sdpa"}, {"false", "flash"}}},
      {"freeze_vision_tower", "--freeze", frozen, {{"true", "vision"}}},
      {"freeze_merger", "--freeze", frozen, {{"true", "projector"}}},
      {"freeze_llm", "", frozen},
      {"image_max_pixels", "", nullptr, {}, "the largest image: --images and --image-size plan images"},
      {"video_max_pixels", "", nullptr, {}, "the largest frame: videos are not planned"},
      {"num_labels", "", nullptr, {}, "a head of classes is planned as one of next tokens, which takes more"},
      {"num_lora_modules", "", nullptr, {}, "all modules get adapters"},
  };
}

}  // namespace

const RecipeTable& transformers_table() {
  static const RecipeTable table{
      .format = RecipeFormat::transformers,
      .title = "TrainingArguments",
      .trainers = "transformers",
      .defaults = {{"per_device_train_batch_size", "--micro-batch", "8"},
                   {"bf16", "--precision", "fp32"},
                   {"lora_rank", "--lora-rank", "8"},
                   {"lora_dropout", "--lora-dropout", "0.05"},
                   {"deepspeed", "--framework", "torch"}},
      .rows = with(with(trl::rows(), script_rows()), training_arguments_rows()),
      .telling = {"per_device_train_batch_size", "gradient_accumulation_steps", "output_dir"}};
  return table;
}

}  // namespace zplan
