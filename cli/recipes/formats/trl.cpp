// TRL's configs, over TrainingArguments, and those of alignment-handbook and open-r1, which are made of them.
// Source: TRL 1.16 and 0.18 trainer/*_config.py, trainer/model_config.py, trainer/utils.py, scripts/*.py;
// PPO's of TRL 1.8.

#include "cli/recipes/formats/trl.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/base/values.h"

namespace zplan {

namespace trl {

namespace {

bool has(const RecipePlace& place, std::string_view key) {
  const RecipeValue* value = place.text.root.find_path(key);
  return value != nullptr && value->kind != RecipeKind::nothing;
}

template <std::size_t N>
bool has_any(const RecipePlace& place, const std::array<std::string_view, N>& keys) {
  return std::ranges::any_of(keys, [&](std::string_view key) { return has(place, key); });
}

/// Keys that releases before 1.0 have and 1.16 has not tell a file that was written for them.
bool is_older(const RecipePlace& place) {
  return place.text.root.find("torch_dtype") != nullptr || has(place, "max_prompt_length");
}

// ---- The objective: which trainer's config the file is. A file alone does not say so.

/// A word of a path or a script's name that names a trainer, and zplan's objective; empty: not planned.
struct TrainerWord {
  std::string_view word, objective, note{};
};
constexpr std::array kTrainers{
    TrainerWord{"sft", "sft"},
    TrainerWord{"pt", "sft"},
    TrainerWord{"cpt", "sft"},
    TrainerWord{"pretraining", "sft"},
    TrainerWord{"finetuning", "sft"},
    TrainerWord{"dpo", "dpo"},
    TrainerWord{"kto", "kto"},
    TrainerWord{"bco", "kto", "BCO is planned as KTO"},
    TrainerWord{"orpo", "orpo"},
    TrainerWord{"cpo", "orpo", "CPO is planned as ORPO"},
    TrainerWord{"simpo", "simpo"},
    TrainerWord{"reward", "reward"},
    TrainerWord{"rm", "reward"},
    TrainerWord{"prm", "sft", "a head of two labels for each token is planned as one of next tokens"},
    TrainerWord{"grpo", "grpo"},
    TrainerWord{"rloo", "grpo", "RLOO is planned as GRPO"},
    TrainerWord{"ppo", "ppo"},
    TrainerWord{"gkd", "gkd"},
    TrainerWord{"gold", "gkd", "GOLD is planned as GKD: another tokenizer of the teacher is not"},
    TrainerWord{"opd", "gkd", "a script's own distillation is planned as TRL's GKD"},
    TrainerWord{"distillation", "gkd",
                "DistillationTrainer is planned as GKD, whose whole logits take more than its chunks"},
    TrainerWord{"xpo", ""},
};

const TrainerWord* trainer_of(std::string_view word) {
  const auto* const found = std::find_if(kTrainers.begin(), kTrainers.end(),
                                         [&](const TrainerWord& each) { return each.word == word; });
  return found == kTrainers.end() ? nullptr : found;
}

/// The file's name and the two folders above it.
std::string end_of_path(const std::string& path) {
  std::size_t at = path.size();
  for (int i = 0; i < 3 && at != std::string::npos && at > 0; ++i) at = path.rfind('/', at - 1);
  return at == std::string::npos ? path : path.substr(at);
}

/// The last word of the text that names a trainer: "recipes/zephyr-7b-beta/dpo/config_qlora.yaml".
const TrainerWord* last_trainer_in(const std::string& text) {
  const TrainerWord* last = nullptr;
  std::string word;
  for (const char c : lower_case(text) + "/") {
    if (c >= 'a' && c <= 'z') {
      word += c;
      continue;
    }
    if (const TrainerWord* found = trainer_of(word)) last = found;
    word.clear();
  }
  return last;
}

/// The word of a loss: "sigmoid", or the first of a list.
std::string loss_type(const RecipePlace& place) {
  const RecipeValue* value = place.text.root.find("loss_type");
  if (value == nullptr) return {};
  return value->kind == RecipeKind::list && !value->items.empty() ? value->items.front().text : value->text;
}

const TrainerWord* trainer_by_keys(const RecipePlace& place) {
  constexpr std::array<std::string_view, 6> kGrpo{"num_generations",       "reward_funcs",
                                                  "max_completion_length", "steps_per_generation",
                                                  "generation_batch_size", "use_vllm"};
  constexpr std::array<std::string_view, 3> kSimpo{"gamma_beta_ratio", "simpo_gamma", "simpo_alpha"};
  constexpr std::array<std::string_view, 3> kGkd{"teacher_model_name_or_path", "seq_kd", "lmbda"};
  constexpr std::array<std::string_view, 2> kKto{"desirable_weight", "undesirable_weight"};
  constexpr std::array<std::string_view, 5> kDpo{"precompute_ref_log_probs", "f_divergence_type", "rpo_alpha",
                                                 "ld_alpha", "ref_model_name_or_path"};
  if (has(place, "reward_model_path") || has(place, "num_ppo_epochs")) return trainer_of("ppo");
  if (has_any(place, kGkd)) return trainer_of("gkd");
  if (has_any(place, kSimpo) || loss_type(place) == "simpo") return trainer_of("simpo");
  if (has_any(place, kGrpo)) return trainer_of("grpo");
  if (has(place, "center_rewards_coefficient")) return trainer_of("reward");
  if (has_any(place, kKto)) return trainer_of("kto");
  if (has(place, "cpo_alpha")) return trainer_of("cpo");
  return has_any(place, kDpo) ? trainer_of("dpo") : nullptr;
}

/// Losses of pairs. Source: TRL 1.16 trainer/dpo_config.py loss_type; 0.18 the same.
bool is_loss_of_pairs(const std::string& name) {
  constexpr std::array<std::string_view, 16> kPairs{
      "sigmoid",   "sigmoid_norm", "hinge",      "ipo",      "exo_pair", "nca_pair", "robust",   "bco_pair",
      "sppo_hard", "aot",          "aot_paired", "aot_pair", "discopop", "apo_zero", "apo_down", "rpo"};
  return std::ranges::find(kPairs, name) != kPairs.end();
}

/// Returns the trainer that runs, by the command's words, then by keys that one trainer alone has, the file's
/// path, weaker keys.
const TrainerWord& trainer(const RecipePlace& place) {
  const TrainerWord* of_command = nullptr;
  for (const std::string& word : place.text.command)
    if (const TrainerWord* found = last_trainer_in(word.substr(word.rfind('/') + 1))) of_command = found;
  if (of_command != nullptr) return *of_command;
  const TrainerWord* const by_keys = trainer_by_keys(place);
  const TrainerWord* const by_path = last_trainer_in(end_of_path(place.text.file));
  // RLOO has GRPO's keys.
  if (by_keys != nullptr && by_path != nullptr && by_keys->objective == by_path->objective) return *by_path;
  if (by_keys != nullptr) return *by_keys;
  if (by_path != nullptr) return *by_path;
  const bool has_pairs =
      is_loss_of_pairs(loss_type(place)) || has(place, "beta") || has(place, "max_prompt_length");
  return *trainer_of(has_pairs ? "dpo" : "sft");
}

bool is_grpo(const RecipePlace& place) { return trainer(place).objective == "grpo"; }

RecipeOptions objective(const RecipePlace& place) {
  const TrainerWord& found = trainer(place);
  if (found.objective.empty())
    place.fail(fmt::format("{} is not planned yet", found.word),
               "accepted: sft, dpo, kto, orpo, cpo, simpo, reward, grpo, rloo, ppo, gkd");
  if (!found.note.empty()) place.not_planned(std::string(found.note));
  return {{"--objective", std::string(found.objective)}};
}

/// Losses of one trainer take the same memory.
RecipeOptions loss(const RecipePlace& place) {
  const std::string name = loss_type(place);
  constexpr std::array<std::string_view, 2> kScores{"cross_entropy", "focal_loss"};
  if (std::ranges::find(kScores, name) != kScores.end())
    place.not_planned("a head of classes is planned as one of next tokens, which takes more");
  return {};
}

// ---- Weights. Source: trainer/model_config.py dtype, trainer/utils.py create_model_from_path.

/// The type in which weights are loaded: what trains in plain PyTorch, and the base below adapters.
RecipeOptions loaded_as(const RecipePlace& place) {
  std::string name = lower_case(place.scalar());
  if (name.starts_with("torch.")) name = name.substr(6);
  if (name.empty()) return {};
  if (name == "float32") return {{"--load-dtype", "fp32"}};
  const bool is_half = name == "float16" || name == "half" || name == "fp16";
  if (!is_half && name != "auto" && name != "bfloat16" && name != "bf16")
    place.fail(in_quotes(place.scalar()), "accepted: auto, bfloat16, float16, float32");
  return {{"--load-dtype", is_half ? "fp16" : "bf16"}, {"--no-master-weights", std::string(kFlagGiven)}};
}

/// Reads bnb_4bit_quant_storage; releases without it store in the type of the loaded weights.
RecipeOptions four_bits(const RecipePlace& place) {
  RecipeOptions options = as_word(place);
  if (options.empty()) return options;
  std::string stored = place.other("bnb_4bit_quant_storage");
  if (stored.empty()) stored = place.other("torch_dtype");
  const std::string_view kind = stored == "bfloat16"  ? "bf16"
                                : stored == "float16" ? "fp16"
                                : stored == "float32" ? "fp32"
                                                      : "uint8";
  options.emplace_back("--quant-storage", std::string(kind));
  return options;
}

RecipeOptions four_bit_type(const RecipePlace& place) {
  if (place.scalar() != "nf4")
    place.not_planned(fmt::format("{} is planned as nf4", in_quotes(place.scalar())));
  return {};
}

/// "kernels-community/flash-attn2", flash_attention_2, sdpa, …
RecipeOptions attention(const RecipePlace& place) {
  const std::string name = lower_case(place.scalar());
  if (name.empty()) return {};
  if (name == "eager" || name == "sdpa") return {{"--attention", name}};
  if (name.find("flash-attn") == std::string::npos && !name.starts_with("flash_attention")) {
    if (name.find('/') == std::string::npos && name != "flex_attention")
      place.fail(
          in_quotes(place.scalar()),
          "accepted: eager, sdpa, flash_attention_2, flash_attention_3, flex_attention, a kernel of the Hub");
    place.not_planned(fmt::format("{} is planned as flash attention", name));
  }
  return {{"--attention", "flash"}};
}

// ---- GRPO. Source: TRL 1.16 and 0.18 trainer/grpo_config.py.

constexpr std::int64_t kCompletion = 256, kPrompt = 512;  // defaults of 1.16 and 0.18

std::int64_t tokens_of(const RecipePlace& place, std::string_view key, std::int64_t otherwise) {
  constexpr std::int64_t kMost = 1 << 24;
  const std::string text = place.other(key);
  return text.empty() ? otherwise : parse_integer(key, text, 1, kMost);
}

/// Reads the length at which earlier releases cut prompts; later ones cut none.
std::int64_t sequence(const RecipePlace& place) {
  const std::int64_t sum =
      tokens_of(place, "max_completion_length", kCompletion) + tokens_of(place, "max_prompt_length", kPrompt);
  return tokens_of(place, "vllm_max_model_length", sum);
}

std::string vllm_mode(const RecipePlace& place) {
  const std::string mode = place.other("vllm_mode");
  return !mode.empty() ? mode : is_older(place) ? "server" : "colocate";
}

std::string reference(const RecipePlace& place) { return place.is_on("use_peft") ? "adapters-off" : "copy"; }

/// Returns what holds where the keys are not there: 8 generations; a divergence in earlier releases, whose
/// beta is 0.04; generation by the trainer itself.
RecipeOptions generation(const RecipePlace& place) {
  if (!is_grpo(place)) return {};
  RecipeOptions options{{"--seq", std::to_string(sequence(place))}};
  if (!has(place, "num_generations")) options.emplace_back("--generations", "8");
  if (!has(place, "max_completion_length"))
    options.emplace_back("--completion-length", std::to_string(kCompletion));
  if (!has(place, "use_vllm")) options.emplace_back("--rollout", "trainer");
  if (!has(place, "beta") && is_older(place)) options.emplace_back("--reference", reference(place));
  return options;
}

RecipeOptions if_grpo(const RecipePlace& place) { return is_grpo(place) ? as_text(place) : RecipeOptions{}; }

RecipeOptions completion(const RecipePlace& place) {
  return is_grpo(place) && has(place, "max_completion_length") ? as_text(place) : RecipeOptions{};
}

RecipeOptions engine(const RecipePlace& place) {
  if (!is_grpo(place)) return {};
  const auto on = place.boolean();
  if (!on) place.fail(in_quotes(place.scalar()), "accepted: true or false");
  return {{"--rollout", *on ? vllm_mode(place) : "trainer"}};
}

/// Reads a setting of an engine in the trainer's processes.
RecipeOptions if_colocated(const RecipePlace& place) {
  return is_grpo(place) && place.is_on("use_vllm") && vllm_mode(place) == "colocate" ? as_text(place)
                                                                                     : RecipeOptions{};
}

RecipeOptions sleep(const RecipePlace& place) {
  const bool sleeps = is_grpo(place) && place.boolean().value_or(false) && place.is_on("use_vllm") &&
                      vllm_mode(place) == "colocate";
  return sleeps ? RecipeOptions{{"--vllm-sleep", "2"}} : RecipeOptions{};
}

/// Reads beta: 0 means no reference model under GRPO, and nothing under DPO.
RecipeOptions divergence(const RecipePlace& place) {
  if (!is_grpo(place) || place.scalar().find_first_not_of("0.") == std::string::npos) return {};
  return {{"--reference", reference(place)}};
}

/// ORPO, SimPO and rewards have no reference model.
RecipeOptions precomputed(const RecipePlace& place) {
  const std::string_view of = trainer(place).objective;
  return of == "dpo" || of == "kto" ? as_word(place) : RecipeOptions{};
}

// ---- GKD. Source: TRL 1.16 experimental/gkd/gkd_config.py.

/// True if the student generates answers (lmbda is 0.5 where it is not there), by itself.
bool is_on_policy(const RecipePlace& place) {
  const std::string share = place.other("lmbda");
  return trainer(place).objective == "gkd" &&
         (share.empty() || share.find_first_not_of("0.") != std::string::npos);
}

/// Returns the options of GKD's divergence, and the length of the answers that are generated.
RecipeOptions distillation(const RecipePlace& place) {
  if (trainer(place).objective != "gkd") return {};
  constexpr std::int64_t kNewTokens = 128, kSample = 1024;
  const std::string beta = place.other("beta");
  const bool is_zero = beta.find_first_not_of("0.") == std::string::npos;
  RecipeOptions options;
  if (!beta.empty() && (is_zero || beta == "1" || beta == "1.0"))
    options.emplace_back("--divergence", is_zero ? "forward" : "reverse");
  if (!is_on_policy(place)) return options;
  const std::int64_t fresh = tokens_of(place, "max_new_tokens", kNewTokens);
  const std::int64_t whole = tokens_of(place, "max_length", kSample);
  options.emplace_back("--completion-length", std::to_string(std::min(fresh, whole - 1)));
  options.emplace_back("--rollout", "trainer");
  return options;
}

RecipeOptions sequence_teacher(const RecipePlace& place) {
  if (place.boolean().value_or(false)) place.not_planned("answers that the teacher generates");
  return {};
}

// ---- PPO: what reward_model_path tells it by. Source: TRL 1.8 experimental/ppo/ppo_config.py,
// examples/scripts/ppo/ppo.py, whose value model is another copy of the reward model.

/// A model's name by as_model, as another option's.
RecipeOptions named(const RecipePlace& place, std::string_view option) {
  RecipeOptions options = as_model(place);
  for (auto& each : options) each.first = option;
  return options;
}

RecipeOptions teacher(const RecipePlace& place) {
  return trainer(place).objective == "gkd" ? named(place, "--teacher") : RecipeOptions{};
}

/// gradient_checkpointing of PPOConfig does nothing.
RecipeOptions ppo_models(const RecipePlace& place) {
  constexpr std::string_view kResponse = "53";
  RecipeOptions options{{"--checkpointing", "none"}};
  for (const std::string_view option : {"--value-model", "--reward-model"})
    for (auto& each : named(place, option)) options.push_back(std::move(each));
  if (place.other("response_length").empty()) options.emplace_back("--completion-length", kResponse);
  return options;
}

RecipeOptions if_ppo(const RecipePlace& place) {
  return trainer(place).objective == "ppo" ? as_text(place) : RecipeOptions{};
}

/// Source: TRL 1.15 models/activation_offloading.py.
RecipeOptions offloaded_activations(const RecipePlace& place) {
  if (!place.boolean().value_or(true)) return {};
  if (trainer(place).objective == "sft" && place.other("deepspeed").empty())
    return {{"--checkpoint-offload", "trl"}};
  place.not_planned("saved activations wait in host memory");
  return {};
}

}  // namespace

std::vector<RecipeRow> rows() {
  const std::vector<std::pair<std::string_view, std::string_view>> seen{{"true", ""}, {"false", ""}};
  return {
      {"model_name_or_path", "--model", as_model},
      {"sft_model_path", "--model", as_model},
      {"model_name_or_path", "--objective", objective},
      {"sft_model_path", "--objective", objective},
      {"model_id", "--objective", objective},
      {"use_peft", "--method", as_word, {{"true", "lora"}, {"false", ""}}},
      {"load_in_8bit", "", as_word, {{"true", "--method qlora --quantization int8"}, {"false", ""}}},
      {"load_in_4bit", "", four_bits, {{"true", "--method qlora --quantization nf4"}, {"false", ""}}},
      {"bnb_4bit_quant_type", "", four_bit_type},
      {"use_bnb_nested_quant", "", as_word, {{"true", "--quantization nf4-double"}, {"false", ""}}},
      {"model_name_or_path", "--quantization", as_packed_model},
      {"bnb_4bit_quant_storage",
       "",
       as_word,
       {{"uint8", ""}, {"bfloat16", ""}, {"float16", ""}, {"float32", ""}}},
      {"lora_r", "--lora-rank", as_text},
      {"lora_dropout", "--lora-dropout", as_text},
      {"lora_target_modules", "--lora-targets", as_targets},
      {"lora_modules_to_save", "--modules-to-save", as_list},
      {"use_dora", "--dora", as_flag},
      {"lora_target_parameters", "", nullptr, {}, "adapters on expert parameters are not counted"},
      {"attn_implementation", "--attention", attention},
      {"model_init_kwargs.attn_implementation", "--attention", attention},
      {"use_flash_attention_2", "--attention", as_word, {{"true", "flash"}, {"false", ""}}},
      {"dtype", "--load-dtype", loaded_as},
      {"torch_dtype", "--load-dtype", loaded_as},
      {"model_init_kwargs.dtype", "--load-dtype", loaded_as},
      {"model_init_kwargs.torch_dtype", "--load-dtype", loaded_as},
      {"max_length", "--seq", as_text},
      {"max_seq_length", "--seq", as_text},
      {"loss_type", "", loss},
      {"precompute_ref_log_probs", "--reference", precomputed, {{"true", "precomputed"}, {"false", ""}}},
      {"packing", "", as_word, seen},
      {"use_liger", "", as_word, {{"true", "--fused-loss --kernels liger"}, {"false", ""}}},
      {"use_liger_loss", "", nullptr, {}, "Liger's loss of preferences, without logits"},
      {"activation_offloading", "", offloaded_activations},
      {"padding_free", "", nullptr, {}, "batches without padding"},
      {"spectrum_config_path", "", nullptr, {}, "Spectrum trains the layers of the highest signal alone"},
      {"sync_ref_model", "", nullptr, {}, "a reference model that follows the trained one"},
      {"cast_lm_head_to_fp32", "", nullptr, {}, "a head in fp32"},
      {"use_transformers_paged", "", nullptr, {}, "generation with a paged cache"},
      {"generation_batch_size", "", nullptr, {}, "completions generated at once"},
      {"num_generations", "--generations", if_grpo},
      {"model_name_or_path", "--seq", generation},
      {"model_name_or_path", "--divergence", distillation},
      {"teacher_model_name_or_path", "--teacher", teacher},
      {"lmbda", "", [](const RecipePlace&) { return RecipeOptions{}; }},
      {"seq_kd", "", sequence_teacher},
      {"teacher_load_in_4bit", "", nullptr, {}, "a teacher in 4 bits: it is planned in 16"},
      {"teacher_load_in_8bit", "", nullptr, {}, "a teacher in 8 bits: it is planned in 16"},
      {"beta", "--reference", divergence},
      {"max_completion_length", "--completion-length", completion},
      {"max_prompt_length", "", [](const RecipePlace&) { return RecipeOptions{}; }},
      {"steps_per_generation", "--steps-per-generation", if_grpo},
      {"num_iterations", "--iterations", if_grpo},
      {"reward_model_path", "--reward-model", ppo_models},
      {"response_length", "--completion-length", if_ppo},
      {"num_ppo_epochs", "--iterations", if_ppo},
      {"num_mini_batches", "--mini-batches", if_ppo},
      {"local_rollout_forward_batch_size", "--rollout-batch", if_ppo},
      {"use_vllm", "--rollout", engine},
      {"vllm_mode", "", as_word, {{"colocate", ""}, {"server", ""}}},
      {"vllm_gpu_memory_utilization", "--vllm-memory", if_colocated},
      {"vllm_tensor_parallel_size", "--vllm-tp", if_colocated},
      {"vllm_enable_sleep_mode", "--vllm-sleep", sleep},
      {"vllm_device", "", nullptr, {}, "vLLM on a GPU of its own: --rollout server"},
      // Arguments of accelerate, which TRL's command line takes from the same file.
      {"num_processes", "--gpus", as_text},
      {"num_machines", "--nodes", as_text},
      {"mixed_precision", "", as_word, {{"no", ""}, {"bf16", ""}, {"fp16", ""}, {"false", ""}}},
      {"dynamo_backend", "", nullptr, {}, "what torch.compile fuses"},
  };
}

/// Source: TRL 1.16 trl/cli/main.py, TRL 0.18 trl/cli.py.
std::vector<RecipeCommand> commands() {
  return {{.words = "trl sft", .config = "--config"},
          {.words = "trl dpo", .config = "--config"},
          {.words = "trl kto", .config = "--config"},
          {.words = "trl grpo", .config = "--config"},
          {.words = "trl rloo", .config = "--config"},
          {.words = "trl reward", .config = "--config"},
          {.words = "trl distillation", .config = "--config"},
          {.words = "trl vllm-serve", .does = "serves a model that generates for another command's training"},
          {.words = "trl env", .does = "prints versions"},
          {.words = "trl chat", .does = "runs a model"}};
}

/// Scripts of open-r1 and of others beside their trainings.
std::vector<NoTraining> no_training() {
  constexpr std::string_view kTrains = "per_device_train_batch_size learning_rate num_train_epochs max_steps";
  return {{.key = "pass_rate_min", .unless = kTrains, .does = "filters data by how often a model is right"},
          {.key = "pass_rate_max", .unless = kTrains, .does = "filters data by how often a model is right"},
          {.key = "sampling_params", .unless = kTrains, .does = "generates data with a model"}};
}

}  // namespace trl

const RecipeTable& trl_table() {
  static const RecipeTable table = [] {
    RecipeTable made{.format = RecipeFormat::trl,
                     .title = "TRL",
                     .trainers = "trl,transformers",
                     .defaults = {{"per_device_train_batch_size", "--micro-batch", "8"},
                                  {"bf16", "--precision", "bf16"},
                                  {"max_length", "--seq", "1024"},
                                  {"lora_r", "--lora-rank", "16"},
                                  {"lora_dropout", "--lora-dropout", "0.05"},
                                  {"lora_target_modules", "--lora-targets", "q_v"},
                                  {"deepspeed", "--framework", "torch"}},
                     .rows = trl::rows(),
                     .telling = {"use_peft", "lora_r", "lora_target_modules", "attn_implementation",
                                 "dataset_name", "bnb_4bit_quant_type", "sft_model_path", "num_ppo_epochs"},
                     .commands = trl::commands(),
                     .trains_nothing = trl::no_training(),
                     .trains = "a command that trains (trl sft, dpo, kto, reward, grpo, rloo)",
                     .launch = "trl {objective} --config {file}"};
    for (RecipeRow& row : training_arguments_rows()) made.rows.push_back(std::move(row));
    return made;
  }();
  return table;
}

}  // namespace zplan
