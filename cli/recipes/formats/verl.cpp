// verl's commands: overrides of its config. Source: verl 0.9.1 trainer/config/_generated_ppo_trainer.yaml,
// workers/engine/fsdp, trainer/main_ppo.py.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"

namespace zplan {

namespace verl {

namespace {

/// Returns a number of the config, or verl's default.
std::int64_t number(const RecipePlace& place, std::string_view key, std::int64_t otherwise) {
  return to_whole_number(place.other(key)).value_or(otherwise);
}

constexpr std::string_view kPrompt = "data.max_prompt_length", kAnswer = "data.max_response_length",
                           kSamples = "actor_rollout_ref.rollout.n";
constexpr std::int64_t kTokens = 512;

/// A sample is a prompt and its completion, both as long as they may be.
RecipeOptions lengths(const RecipePlace& place) {
  const std::int64_t answer = number(place, kAnswer, kTokens);
  return {{"--seq", fmt::format("{}", number(place, kPrompt, kTokens) + answer)},
          {"--completion-length", fmt::format("{}", answer)}};
}

/// GAE needs a model of values, which the critic is; the other estimators compare completions of a prompt.
RecipeOptions objective(const RecipePlace& place) {
  const std::string estimator = place.other("algorithm.adv_estimator");
  if (estimator.empty() || estimator == "gae") {
    const std::string critic = place.other("critic.model.path");
    RecipeOptions options{{"--objective", "ppo"}};
    if (!critic.empty())
      options.insert(options.end(), {{"--value-model", critic}, {"--reward-model", critic}});
    return options;
  }
  place.not_planned(
      "samples of full length are planned, and log-probabilities as TRL holds them: verl drops "
      "padding and holds less");
  RecipeOptions options{{"--objective", "grpo"},
                        {"--generations", fmt::format("{}", number(place, kSamples, 1))}};
  const bool has_reference =
      place.is_on("actor_rollout_ref.actor.use_kl_loss") || place.is_on("algorithm.use_kl_in_reward");
  options.emplace_back("--reference", has_reference ? "copy" : "none");
  return options;
}

/// An optimizer step takes ppo_mini_batch_size prompts with all their completions.
RecipeOptions global_batch(const RecipePlace& place) {
  return {
      {"--global-batch", fmt::format("{}", number(place, "actor_rollout_ref.actor.ppo_mini_batch_size", 256) *
                                               number(place, kSamples, 1))}};
}

RecipeOptions cluster(const RecipePlace& place) {
  if (place.is_given("--gpus") || place.is_given("--instance")) return {};
  const std::int64_t nodes = number(place, "trainer.nnodes", 1),
                     gpus = number(place, "trainer.n_gpus_per_node", 8) * nodes;
  RecipeOptions options{{"--gpus", fmt::format("{}", gpus)}};
  if (nodes > 1) options.emplace_back("--nodes", fmt::format("{}", nodes));
  return options;
}

RecipeOptions strategy(const RecipePlace& place) {
  const std::string name = place.scalar();
  if (name == "megatron") place.fail("Megatron-Core, which is not planned yet", "accepted: fsdp, fsdp2");
  if (name != "fsdp" && name != "fsdp2") place.not_planned(fmt::format("{} instead of FSDP2", name));
  return {};
}

RecipeOptions adapters(const RecipePlace& place) {
  const std::string rank = place.scalar();
  if (rank == "0" || rank.empty()) return {};
  return {{"--method", "lora"}, {"--lora-rank", rank}};
}

RecipeOptions checkpointing(const RecipePlace& place) {
  return {{"--checkpointing", place.boolean().value_or(true) ? "full" : "none"}};
}

RecipeOptions liger(const RecipePlace& place) {
  return place.boolean().value_or(false) ? RecipeOptions{{"--kernels", "liger"}} : RecipeOptions{};
}

/// verl keeps the actor's states on the host between the phases; plans of FSDP2 keep them on the GPU.
RecipeOptions between_phases(const RecipePlace& place) {
  if (place.boolean().value_or(false))
    place.not_planned("states wait on the host while completions are generated: less is held then");
  return {};
}

RecipeOptions engine(const RecipePlace& place) {
  if (place.scalar() != "vllm") place.not_planned(fmt::format("{} is planned as vLLM", place.scalar()));
  return {{"--rollout", "colocate"}};
}

RecipeOptions dynamic_batch(const RecipePlace& place) {
  if (place.boolean().value_or(false))
    place.not_planned(
        "micro-batches are filled up to a number of tokens (ppo_max_token_len_per_gpu): samples "
        "of full length are planned");
  return {};
}

/// With micro-batches of tokens, as many full samples as they hold.
RecipeOptions micro_batch(const RecipePlace& place) {
  if (!place.is_on("actor_rollout_ref.actor.use_dynamic_bsz")) return {};
  const std::int64_t tokens = number(place, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu", 16384),
                     sample = number(place, kPrompt, kTokens) + number(place, kAnswer, kTokens);
  return {{"--micro-batch",
           fmt::format("{}", std::max<std::int64_t>(1, tokens / std::max<std::int64_t>(1, sample)))}};
}

/// Keys that a default reads together with others.
RecipeOptions read_with_others(const RecipePlace& /*place*/) { return {}; }

RecipeOptions only_one(const RecipePlace& place) {
  if (place.scalar() != "1") place.not_planned("sequence parallelism (Ulysses) under FSDP2");
  return {};
}

std::vector<RecipeRow> verl_rows() {
  return {
      {"actor_rollout_ref.model.path", "--model", as_model},
      {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "--micro-batch", as_text},
      {"actor_rollout_ref.actor.use_dynamic_bsz", "", dynamic_batch},
      {"actor_rollout_ref.actor.strategy", "", strategy},
      {"actor_rollout_ref.model.lora_rank", "--method", adapters},
      {"actor_rollout_ref.model.enable_gradient_checkpointing", "--checkpointing", checkpointing},
      {"actor_rollout_ref.model.use_liger", "--kernels", liger},
      {"actor_rollout_ref.actor.fsdp_config.param_offload", "", between_phases},
      {"actor_rollout_ref.actor.fsdp_config.optimizer_offload", "", between_phases},
      {"actor_rollout_ref.rollout.name", "--rollout", engine},
      {"actor_rollout_ref.rollout.gpu_memory_utilization", "--vllm-memory", as_text},
      {"actor_rollout_ref.rollout.tensor_model_parallel_size", "--vllm-tp", as_text},
      {"actor_rollout_ref.actor.ulysses_sequence_parallel_size", "", only_one},
      {"actor_rollout_ref.model.enable_activation_offload",
       "",
       nullptr,
       {},
       "activations that wait on the host"},
      {"actor_rollout_ref.model.use_fused_kernels", "", nullptr, {}, "verl's fused log-probabilities"},
      {"actor_rollout_ref.actor.entropy_checkpointing",
       "",
       nullptr,
       {},
       "entropies that the backward computes again"},
      {"reward_model.enable", "", nullptr, {}, "a reward model on the GPUs"},
      {"actor_rollout_ref.actor.optim.optimizer", "--optimizer", as_word, {{"AdamW", "adamw"}}},
      {"data.max_prompt_length", "", read_with_others},
      {"data.max_response_length", "", read_with_others},
      {"actor_rollout_ref.rollout.n", "", read_with_others},
      {"actor_rollout_ref.actor.ppo_mini_batch_size", "", read_with_others},
      {"actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "", read_with_others},
      {"actor_rollout_ref.actor.use_kl_loss", "", read_with_others},
      {"algorithm.adv_estimator", "", read_with_others},
      {"algorithm.use_kl_in_reward", "", read_with_others},
      {"critic.model.path", "", read_with_others},
      {"trainer.n_gpus_per_node", "", read_with_others},
      {"trainer.nnodes", "", read_with_others},
  };
}

std::vector<RecipeCommand> verl_commands() {
  constexpr std::string_view kSft = "verl's supervised training";
  return {{.words = "verl.trainer.main_ppo"},
          {.words = "main_ppo.py"},
          {.words = "verl.trainer.fsdp_sft_trainer", .not_planned = kSft},
          {.words = "verl.trainer.sft_trainer", .not_planned = kSft},
          {.words = "verl.trainer.main_generation", .does = "runs a model"},
          {.words = "verl.trainer.main_eval", .does = "evaluates answers"},
          {.words = "verl.model_merger", .does = "merges shards of a model"}};
}

}  // namespace

}  // namespace verl

const RecipeTable& verl_table() {
  static const RecipeTable table{
      .format = RecipeFormat::verl,
      .title = "verl",
      .trainers = "",
      .defaults = {{"algorithm.adv_estimator", "--objective", "", verl::objective},
                   {"data.max_prompt_length", "--seq", "", verl::lengths},
                   {"actor_rollout_ref.actor.ppo_mini_batch_size", "--global-batch", "", verl::global_batch},
                   {"actor_rollout_ref.actor.use_dynamic_bsz", "--micro-batch", "", verl::micro_batch},
                   {"trainer.n_gpus_per_node", "--gpus", "", verl::cluster},
                   {"actor_rollout_ref.actor.strategy", "--framework", "fsdp"},
                   {"actor_rollout_ref.actor.strategy", "--zero", "3"},
                   {"actor_rollout_ref.actor.fsdp_config.model_dtype", "--precision", "bf16"},
                   {"actor_rollout_ref.model.enable_gradient_checkpointing", "--checkpointing", "full"},
                   {"actor_rollout_ref.rollout.name", "--rollout", "colocate"},
                   {"actor_rollout_ref.rollout.gpu_memory_utilization", "--vllm-memory", "0.5"}},
      .rows = verl::verl_rows(),
      .telling = {"actor_rollout_ref"},
      .commands = verl::verl_commands(),
      .trains = "a command that trains (verl.trainer.main_ppo)",
      .has_references = true};
  return table;
}

}  // namespace zplan
