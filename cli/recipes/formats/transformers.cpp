// TrainingArguments of transformers, and TRL's configs on top of them.
// Source: transformers 5.23 training_args.py; TRL 1.16 trainer/{base,sft,dpo}_config.py, model_config.py;
// PPO's of TRL 1.8.

#include "cli/base/values.h"
#include "cli/recipes/recipe_table.h"

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

/// Evaluation steps are those of a run that evaluates.
RecipeOptions evaluated(const RecipePlace& place) {
  const std::string strategy = place.other("eval_strategy");
  if ((strategy.empty() || strategy == "no") && !place.is_on("do_eval")) return {};
  return as_text(place);
}

RecipeOptions accumulated(const RecipePlace& place) {
  return place.other("eval_strategy").empty() || place.other("eval_strategy") == "no" ? RecipeOptions{}
                                                                                      : as_text(place);
}

// ---- GRPO: what num_generations tells it by. Source: TRL 1.16 trainer/grpo_config.py.

/// A key's whole number, or what stands for it.
std::int64_t tokens_of(const RecipePlace& place, std::string_view key, std::int64_t otherwise) {
  constexpr std::int64_t kMost = 1 << 24;
  const std::string text = place.other(key);
  return text.empty() ? otherwise : parse_integer(key, text, 1, kMost);
}

constexpr std::int64_t kGrpoCompletion = 256, kGrpoPrompt = 512;  // defaults of TRL 1.16 and 0.24

/// Reads the length at which earlier releases cut prompts; later ones cut none.
std::int64_t grpo_sequence(const RecipePlace& place) {
  const std::int64_t sum = tokens_of(place, "max_completion_length", kGrpoCompletion) +
                           tokens_of(place, "max_prompt_length", kGrpoPrompt);
  return tokens_of(place, "vllm_max_model_length", sum);
}

/// Without use_vllm the trainer generates by itself.
RecipeOptions grpo_generations(const RecipePlace& place) {
  RecipeOptions options{{"--objective", "grpo"},
                        {"--generations", place.scalar()},
                        {"--seq", std::to_string(grpo_sequence(place))}};
  if (place.other("max_completion_length").empty())
    options.emplace_back("--completion-length", std::to_string(kGrpoCompletion));
  if (place.other("use_vllm").empty()) options.emplace_back("--rollout", "trainer");
  return options;
}

RecipeOptions grpo_engine(const RecipePlace& place) {
  const auto on = place.boolean();
  if (!on) place.fail(in_quotes(place.scalar()), "accepted: true or false");
  const std::string mode = place.other("vllm_mode");
  return {{"--rollout", !*on ? "trainer" : mode.empty() ? "colocate" : mode}};
}

/// Reads a setting of an engine in the trainer's processes.
RecipeOptions if_colocated(const RecipePlace& place) {
  return place.is_on("use_vllm") && place.other("vllm_mode") != "server" ? as_text(place) : RecipeOptions{};
}

RecipeOptions grpo_sleep(const RecipePlace& place) {
  const bool sleeps = place.boolean().value_or(false) && place.is_on("use_vllm");
  return sleeps ? RecipeOptions{{"--vllm-sleep", "2"}} : RecipeOptions{};
}

/// Reads beta: 0 means no reference model under GRPO, and nothing under DPO.
RecipeOptions grpo_reference(const RecipePlace& place) {
  const std::string beta = place.scalar();
  if (place.other("num_generations").empty() || beta.find_first_not_of("0.") == std::string::npos) return {};
  return {{"--reference", place.is_on("use_peft") ? "adapters-off" : "copy"}};
}

// ---- PPO: what reward_model_path tells it by. Source: TRL 1.8 experimental/ppo/ppo_config.py,
// examples/scripts/ppo/ppo.py, whose value model is another copy of the reward model.

/// A model's name by as_model, as another option's.
RecipeOptions named(const RecipePlace& place, std::string_view option) {
  RecipeOptions options = as_model(place);
  for (auto& each : options) each.first = option;
  return options;
}

/// gradient_checkpointing of PPOConfig does nothing.
RecipeOptions ppo_models(const RecipePlace& place) {
  constexpr std::string_view kResponse = "53";
  RecipeOptions options{{"--objective", "ppo"}, {"--checkpointing", "none"}};
  for (const std::string_view option : {"--value-model", "--reward-model"})
    for (auto& each : named(place, option)) options.push_back(std::move(each));
  if (place.other("response_length").empty()) options.emplace_back("--completion-length", kResponse);
  return options;
}

RecipeOptions checkpointed(const RecipePlace& place) {
  return place.other("reward_model_path").empty() ? as_word(place) : RecipeOptions{};
}

std::vector<RecipeRow> with(std::vector<RecipeRow> rows, const std::vector<RecipeRow>& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

std::vector<RecipeRow> trl_rows() {
  return {
      {"model_name_or_path", "--model", as_model},
      {"sft_model_path", "--model", as_model},
      {"use_peft", "--method", as_word, {{"true", "lora"}, {"false", ""}}},
      {"load_in_8bit", "", as_word, {{"true", "--method qlora --quantization int8"}, {"false", ""}}},
      {"load_in_4bit", "", as_word, {{"true", "--method qlora"}, {"false", ""}}},
      {"bnb_4bit_quant_type", "", as_word, {{"nf4", ""}}},
      {"use_bnb_nested_quant", "", as_word, {{"true", "--quantization nf4-double"}, {"false", ""}}},
      {"model_name_or_path", "--quantization", as_packed_model},
      {"bnb_4bit_quant_storage",
       "--quant-storage",
       as_word,
       {{"uint8", "uint8"}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}},
      {"lora_r", "--lora-rank", as_text},
      {"lora_dropout", "--lora-dropout", as_text},
      {"lora_target_modules", "--lora-targets", as_targets},
      {"lora_modules_to_save", "--modules-to-save", as_list},
      {"use_dora", "--dora", as_flag},
      {"attn_implementation",
       "--attention",
       as_word,
       {{"eager", "eager"},
        {"sdpa", "sdpa"},
        {"flash_attention_2", "flash"},
        {"flash_attention_3", "flash"},
        {"kernels-community/flash-attn2", "flash"},
        {"kernels-community/flash-attn3", "flash"},
        {"kernels-community/vllm-flash-attn3", "flash"}}},
      {"dtype",
       "--load-dtype",
       as_word,
       {{"auto", ""}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}},
      {"torch_dtype",
       "--load-dtype",
       as_word,
       {{"auto", ""}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}},
      {"max_length", "--seq", as_text},
      {"max_seq_length", "--seq", as_text},
      {"loss_type",
       "--objective",
       as_word,
       {{"nll", ""},
        {"chunked_nll", ""},
        {"dft", ""},
        {"sigmoid", "dpo"},
        {"ipo", "dpo"},
        {"hinge", "dpo"},
        {"dapo", ""},
        {"grpo", ""},
        {"dr_grpo", ""},
        {"bnpo", ""},
        {"cispo", ""},
        {"luspo", ""}}},
      {"precompute_ref_log_probs", "--reference", as_word, {{"true", "precomputed"}, {"false", ""}}},
      {"activation_offloading", "", nullptr, {}, "saved activations wait in host memory"},
      {"padding_free", "", nullptr, {}, "batches without padding"},
      {"num_generations", "--generations", grpo_generations},
      {"beta", "--reference", grpo_reference},
      {"vllm_mode", "", as_word, {{"colocate", ""}, {"server", ""}}},
      {"max_completion_length", "--completion-length", as_text},
      {"steps_per_generation", "--steps-per-generation", as_text},
      {"num_iterations", "--iterations", as_text},
      {"reward_model_path", "--reward-model", ppo_models},
      {"response_length", "--completion-length", as_text},
      {"num_ppo_epochs", "--iterations", as_text},
      {"num_mini_batches", "--mini-batches", as_text},
      {"local_rollout_forward_batch_size", "--rollout-batch", as_text},
      {"use_vllm", "--rollout", grpo_engine},
      {"vllm_gpu_memory_utilization", "--vllm-memory", if_colocated},
      {"vllm_tensor_parallel_size", "--vllm-tp", if_colocated},
      {"vllm_enable_sleep_mode", "--vllm-sleep", grpo_sleep},
  };
}

/// Source: TRL 1.16 trl/cli/main.py, TRL 0.18 trl/cli.py.
std::vector<RecipeCommand> trl_commands() {
  return {{.words = "trl sft", .config = "--config"},
          {.words = "trl dpo", .config = "--config"},
          {.words = "trl kto", .config = "--config"},
          {.words = "trl grpo", .config = "--config"},
          {.words = "trl rloo", .config = "--config"},
          {.words = "trl reward", .config = "--config"},
          {.words = "trl vllm-serve", .does = "serves a model that generates for another command's training"},
          {.words = "trl env", .does = "prints versions"},
          {.words = "trl chat", .does = "runs a model"}};
}

}  // namespace

std::vector<RecipeRow> training_arguments_rows() {
  return {
      {"per_device_train_batch_size", "--micro-batch", as_text},
      {"gradient_accumulation_steps", "--grad-accum", as_text},
      {"bf16", "--precision", as_word, {{"true", "bf16"}, {"false", ""}}},
      {"fp16", "--precision", as_word, {{"true", "fp16"}, {"false", ""}}},
      {"optim", "--optimizer", as_optimizer},
      {"gradient_checkpointing", "--checkpointing", checkpointed, {{"true", "full"}, {"false", "none"}}},
      {"activation_checkpointing", "--checkpointing", as_word, {{"true", "full"}, {"false", "none"}}},
      {"use_liger_kernel", "", as_word, {{"true", "--fused-loss --kernels liger"}, {"false", ""}}},
      {"fsdp", "", fsdp_words},
      {"fsdp_config.reshard_after_forward", "--zero", as_word, {{"true", "3"}, {"false", "2"}}},
      {"fsdp_config.offload_params", "--offload", as_word, {{"true", "all"}, {"false", ""}}},
      {"fsdp_config.activation_checkpointing", "--checkpointing", as_word, {{"true", "full"}, {"false", ""}}},
      {"fsdp_config.state_dict_type",
       "--save",
       as_word,
       {{"FULL_STATE_DICT", "full"}, {"SHARDED_STATE_DICT", "sharded"}}},
      {"deepspeed", "--ds-config", as_ds_config},
      {"num_train_epochs", "--epochs", as_text},
      {"per_device_eval_batch_size", "--eval-batch", evaluated},
      {"eval_accumulation_steps", "--eval-accumulation", accumulated},
      {"torch_compile", "", nullptr, {}, "what torch.compile fuses"},
      {"auto_find_batch_size", "", nullptr, {}, "the batch size is tried out"},
      {"neftune_noise_alpha", "", nullptr, {}, "noise on the embeddings, a copy of their output"},
      {"group_by_length",
       "",
       nullptr,
       {},
       "samples of like lengths in a batch: --lengths with --batching grouped"},
      {"train_sampling_strategy", "", as_word, {{"random", ""}, {"sequential", ""}, {"group_by_length", ""}}},
  };
}

const RecipeTable& transformers_table() {
  static const RecipeTable table{
      .format = RecipeFormat::transformers,
      .title = "TrainingArguments",
      .trainers = "transformers",
      .defaults = {{"per_device_train_batch_size", "--micro-batch", "8"},
                   {"bf16", "--precision", "fp32"},
                   {"deepspeed", "--framework", "torch"}},
      .rows = with({{"max_length", "--seq", as_text}, {"max_seq_length", "--seq", as_text}},
                   training_arguments_rows()),
      .telling = {"per_device_train_batch_size", "gradient_accumulation_steps", "output_dir"}};
  return table;
}

const RecipeTable& trl_table() {
  static const RecipeTable table{
      .format = RecipeFormat::trl,
      .title = "TRL",
      .trainers = "trl,transformers",
      .defaults = {{"per_device_train_batch_size", "--micro-batch", "8"},
                   {"bf16", "--precision", "bf16"},
                   {"max_length", "--seq", "1024"},
                   {"deepspeed", "--framework", "torch"}},
      .rows = with(trl_rows(), training_arguments_rows()),
      .telling = {"use_peft", "lora_r", "lora_target_modules", "attn_implementation", "dataset_name",
                  "bnb_4bit_quant_type", "sft_model_path", "num_ppo_epochs"},
      .commands = trl_commands(),
      .trains_nothing = {},
      .trains = "a command that trains (trl sft, dpo, kto, reward, grpo, rloo)"};
  return table;
}

}  // namespace zplan
