// ms-swift's objectives beside next tokens, and the parts of image-text models that it freezes, over
// transformers and over Megatron-Core. Source: ms-swift 4.6 and 3.12 swift/arguments/*.py,
// swift/rlhf_trainers/args_mixin.py, swift/megatron/arguments/megatron_args.py.

#include <fmt/format.h>

#include <algorithm>

#include "cli/base/values.h"
#include "cli/recipes/formats/megatron.h"
#include "cli/recipes/formats/swift.h"
#include "models/base/error.h"

namespace zplan {

namespace swift {

std::string command_of(const RecipeText& text) {
  const auto found = find_command(text.command);
  return found ? std::string(found->command->words.substr(found->command->words.find(' ') + 1))
               : std::string();
}

namespace {

bool runs_megatron(const RecipePlace& place) { return place.recipe.format == RecipeFormat::swift_megatron; }

}  // namespace

/// megatron sft leaves rlhf_type empty.
std::string preference_of(const RecipePlace& place) {
  const std::string command = command_of(place.text), said = place.other("rlhf_type");
  const bool is_rlhf = command == "rlhf" || (command.empty() && !said.empty() &&
                                             (runs_megatron(place) || place.other("output_dir").empty() ||
                                              place.text.root.find("beta") != nullptr));
  if (!is_rlhf) return {};
  return said.empty() ? "dpo" : lower_case(said);
}

bool is_reinforcement(const RecipePlace& place) { return preference_of(place) == "grpo"; }

std::int64_t whole(const RecipePlace& place, std::string_view key, std::int64_t otherwise) {
  constexpr std::int64_t kMost = 1 << 24;
  const RecipeValue* value = place.text.root.find(key);
  if (value == nullptr || value->text.empty() || !value->open.empty()) return otherwise;
  return parse_integer(fmt::format("{}:{}: {}", source_of(place.text, *value), value->line, key), value->text,
                       0, kMost);
}

bool is_zero(const std::string& number) { return number.find_first_not_of("0.") == std::string::npos; }

std::string model_of(const RecipePlace& place) {
  return place.asked.has_model ? place.asked.model : place.other("model");
}

std::string tuner_of(const RecipePlace& place) {
  std::string name;
  for (const char* key : {"tuner_type", "train_type", "sft_type"})
    if (name.empty()) name = place.other(key);
  if (!runs_megatron(place)) return name.empty() ? "lora" : name;
  for (const char* key : {"adapters", "mcore_adapter"})
    if (const RecipeValue* folder = place.text.root.find(key); folder != nullptr && !is_off(*folder))
      if (name.empty() || name == "full") name = "lora";
  return name.empty() ? "full" : name;
}

bool trains_all_weights(const RecipePlace& place) { return tuner_of(place) == "full"; }

std::int64_t gpus_of(const RecipePlace& place) {
  if (place.asked.gpus) return *place.asked.gpus;
  for (const RecipeSetting& setting : place.recipe.settings)
    for (const auto& [option, value] : setting.options)
      if (option == "--gpus") return parse_integer(setting.key, value, 1, kMostGpus);
  return 1;
}

// ---- preferences and reinforcement

namespace {

RecipeOptions preferences(const RecipePlace& place) {
  const std::string said = preference_of(place);
  if (said.empty() || said == "grpo" || said == "gkd") return {};  // the latter by their defaults
  if (said == "cpo") place.not_planned("CPO is planned as ORPO, whose loss is of the same tensors");
  if (said == "ppo") return {{"--objective", "ppo"}};
  return as_word(place);
}

/// True if vLLM generates: megatron rlhf does so by default. Source: ms-swift 4.6
/// swift/megatron/arguments/megatron_args.py use_vllm.
bool runs_vllm(const RecipePlace& place) {
  return place.is_on("use_vllm") || (runs_megatron(place) && place.other("use_vllm").empty());
}

/// True if vLLM generates in the trainer's processes.
bool is_colocated(const RecipePlace& place) {
  return runs_vllm(place) && place.other("vllm_mode") != "server";
}

/// Adds what generates completions, with the share that vLLM takes where no key says it.
void add_engine(const RecipePlace& place, RecipeOptions& options) {
  options.emplace_back("--rollout", runs_vllm(place) ? place.other("vllm_mode") : "trainer");
  if (is_colocated(place) && place.other("vllm_gpu_memory_utilization").empty())
    options.emplace_back("--vllm-memory", "0.9");
}

/// Returns the micro-batches of an optimizer step on one rank.
std::int64_t micro_batches(const RecipePlace& place) {
  return runs_megatron(place) ? megatron_micro_batches(place)
                              : whole(place, "gradient_accumulation_steps", 1);
}

/// Prompts are as long as max_length, and a sample is a prompt and a completion.
std::int64_t rollout_sequence(const RecipePlace& place, std::int64_t completion) {
  constexpr std::int64_t kPrompt = 512;
  const std::int64_t prompt = whole(place, "max_length", 0), context = whole(place, "vllm_max_model_len", 0);
  if (prompt > 0) return prompt + completion;
  return context > completion && context < 4 * completion ? context : completion + kPrompt;
}

std::int64_t completion_of(const RecipePlace& place) {
  constexpr std::int64_t kCompletion = 512;
  const std::int64_t older = whole(place, "max_new_tokens", kCompletion);
  return whole(place, "max_completion_length", whole(place, "response_length", older));
}

/// True if the student generates some of what it is trained on. Source: ms-swift 4.6
/// arguments/rlhf_args.py lmbda (0.5).
bool is_on_policy(const RecipePlace& place) {
  const std::string share = place.other("lmbda");
  // Under Megatron-Core what is in the data is trained on where vLLM does not run.
  const bool generates = !runs_megatron(place) || runs_vllm(place);
  return preference_of(place) == "gkd" && generates && (share.empty() || !is_zero(share));
}

/// A teacher on a server sends its most probable tokens; without one the student is its own. Source: ms-swift
/// 4.6 arguments/rlhf_args.py _check_teacher, _set_default.
RecipeOptions distillation(const RecipePlace& place) {
  RecipeOptions options{{"--objective", "gkd"}};
  const std::string teacher = place.other("teacher_model"), beta = place.other("beta");
  const bool is_own = !trains_all_weights(place) && teacher == place.other("model");
  if (!place.other("teacher_model_server").empty())
    options.emplace_back("--reference", "none");
  else if (teacher.empty() || is_own)
    options.emplace_back("--reference", "adapters-off");
  if (!beta.empty() && is_zero(beta)) options.emplace_back("--divergence", "forward");
  if (!beta.empty() && beta.find_first_not_of("0.1") == std::string::npos && beta.starts_with("1"))
    options.emplace_back("--divergence", "reverse");
  if (!is_on_policy(place)) return options;
  const std::int64_t completion = completion_of(place), limit = whole(place, "max_length", 0);
  options.emplace_back("--completion-length", std::to_string(completion));
  if (limit <= completion) options.emplace_back("--seq", std::to_string(rollout_sequence(place, completion)));
  add_engine(place, options);
  const std::int64_t steps = micro_batches(place);
  if (steps > 1 && place.other("steps_per_generation").empty() &&
      place.other("generation_batch_size").empty())
    options.emplace_back("--steps-per-generation", std::to_string(steps));
  return options;
}

}  // namespace

RecipeOptions default_preference(const RecipePlace& place) {
  return preference_of(place) == "dpo" ? RecipeOptions{{"--objective", "dpo"}} : RecipeOptions{};
}

/// All of a GRPO run that keys say or leave to defaults: one setting, so that what stands in the place of
/// another is given together.
RecipeOptions reinforcement(const RecipePlace& place) {
  const std::string said = preference_of(place);
  if (said == "gkd") return distillation(place);
  if (said != "grpo" && said != "ppo") return {};
  const std::int64_t completion = completion_of(place);
  RecipeOptions options{{"--completion-length", std::to_string(completion)}};
  if (said == "ppo") {
    if (place.other("max_length").empty())
      options.emplace_back("--seq", std::to_string(rollout_sequence(place, completion)));
    return options;
  }
  options.emplace_back("--objective", "grpo");
  options.emplace_back("--seq", std::to_string(rollout_sequence(place, completion)));
  constexpr std::int64_t kGenerations = 8, kFewest = 2;
  const std::int64_t generations = whole(place, "num_generations", kGenerations);
  if (generations < kFewest)
    place.recipe.not_planned.push_back(
        {"num_generations", place.value.line,
         "one completion of each prompt is planned as two, which take the same memory in a micro-batch"});
  options.emplace_back("--generations", std::to_string(std::max(generations, kFewest)));
  const std::string beta = place.other("beta");
  if (beta.empty() || !is_zero(beta))
    options.emplace_back("--reference", trains_all_weights(place) ? "copy" : "adapters-off");
  add_engine(place, options);
  return options;
}

namespace {

/// True if completions are generated, whose engine keys name.
bool rolls_out(const RecipePlace& place) { return is_reinforcement(place) || is_on_policy(place); }

/// Source: rlhf_trainers/args_mixin.py vllm_mode.
RecipeOptions vllm(const RecipePlace& place) {
  const auto on = place.boolean();
  if (!on) place.fail(in_quotes(place.scalar()), "accepted: true, false");
  const bool generates = rolls_out(place) && *on;
  if (generates && place.other("vllm_mode").empty())
    place.fail("true without vllm_mode", "accepted: with vllm_mode colocate, server");
  return {};
}

RecipeOptions vllm_mode(const RecipePlace& place) {
  if (rolls_out(place) && !runs_vllm(place)) place.fail("without use_vllm", "accepted: with use_vllm true");
  return as_word(place);
}

RecipeOptions labels(const RecipePlace& place) {
  constexpr std::int64_t kMostLabels = 1 << 24;
  if (!place.scalar().empty())
    static_cast<void>(parse_integer(
        fmt::format("{}:{}: {}", source_of(place.text, place.value), place.value.line, place.row.key),
        place.scalar(), 1, kMostLabels));
  return {};
}

/// Reads a setting of an engine in the trainer's processes.
RecipeOptions if_colocated_vllm(const RecipePlace& place) {
  return rolls_out(place) && is_colocated(place) ? as_text(place) : RecipeOptions{};
}

RecipeOptions if_reinforced(const RecipePlace& place) {
  return is_reinforcement(place) ? as_text(place) : RecipeOptions{};
}

/// Under Megatron-Core optimizer steps count, else micro-steps.
RecipeOptions if_fed(const RecipePlace& place) {
  if (!rolls_out(place)) return {};
  if (!runs_megatron(place) || place.scalar().empty()) return as_text(place);
  return {{"--steps-per-generation",
           std::to_string(whole(place, place.row.key, 1) * megatron_micro_batches(place))}};
}

RecipeOptions if_ppo(const RecipePlace& place) {
  return preference_of(place) == "ppo" ? as_text(place) : RecipeOptions{};
}

}  // namespace

/// Length of a sample; of GRPO's prompts it is counted with the completions.
RecipeOptions sample_length(const RecipePlace& place) {
  const bool is_short = is_on_policy(place) && whole(place, "max_length", 0) <= completion_of(place);
  if (is_reinforcement(place) || is_short) return {};
  // Sequences are padded to a multiple of the ranks that divide them. Source: ms-swift 4.6
  // swift/sequence_parallel/utils.py.
  const std::int64_t ranks = std::max<std::int64_t>(1, whole(place, "sequence_parallel_size", 1)),
                     tokens = whole(place, place.row.key, 0);
  if (!preference_of(place).empty() || tokens % ranks == 0) return as_text(place);
  return {{"--seq", std::to_string((tokens / ranks + 1) * ranks)}};
}

/// Liger's loss of generated answers. Source: ms-swift 4.6 rlhf_trainers/gkd_trainer.py _prepare_liger_loss,
/// rlhf_trainers/grpo_trainer.py compute_liger_loss.
RecipeOptions liger_of_answers(const RecipePlace& place) {
  const std::string said = preference_of(place);
  if (place.boolean().value_or(false) && (said == "gkd" || said == "grpo"))
    place.not_planned("Liger's loss holds slices of the logits: all of them are planned, which take more");
  return {};
}

namespace {

/// Samples of a generation over all GPUs, in micro-steps of them.
RecipeOptions generation_batch(const RecipePlace& place) {
  if (!rolls_out(place) || place.scalar().empty() || !place.other("steps_per_generation").empty()) return {};
  const std::int64_t once =
      runs_megatron(place)
          ? megatron_samples(place)
          : std::max<std::int64_t>(1, whole(place, "per_device_train_batch_size", 1)) * gpus_of(place);
  const std::int64_t samples = whole(place, "generation_batch_size", 0);
  if (samples <= 0 || once == 0 || samples % once != 0) {
    place.not_planned("it is no multiple of the micro-batches of all GPUs");
    return {};
  }
  return {{"--steps-per-generation", std::to_string(samples / once)}};
}

/// Under PPO the value model is another copy of the reward model. Source: pipelines/train/rlhf.py.
RecipeOptions reward_models(const RecipePlace& place) {
  const std::string said = preference_of(place);
  if (said == "ppo" && place.value.kind == RecipeKind::scalar) {
    RecipeOptions options;
    for (const char* option : {"--value-model", "--reward-model"})
      for (const auto& each : as_model(place)) options.emplace_back(option, each.second);
    return options;
  }
  if (said == "grpo" && !is_off(place.value)) place.not_planned("a reward model on the training GPUs");
  return {};
}

/// The teacher of gkd; with adapters the model's own name means the student without them. Source: ms-swift
/// 4.6 arguments/rlhf_args.py _check_teacher.
RecipeOptions teacher(const RecipePlace& place) {
  const std::string said = preference_of(place);
  if (is_off(place.value)) return {};
  if (said == "grpo")
    place.not_planned(
        "a teacher's weights, and its forward over what was generated: as much as --objective gkd --teacher "
        "plans of them");
  if (said != "gkd" || (!trains_all_weights(place) && place.scalar() == place.other("model"))) return {};
  RecipeOptions options;
  for (const auto& each : as_model(place)) options.emplace_back("--teacher", each.second);
  return options;
}

/// The teacher's engine of its own: planned with the student's stage, whole below ZeRO-3.
RecipeOptions teacher_engine(const RecipePlace& place) {
  if (!is_off(place.value) && place.value.text != place.other("deepspeed"))
    place.not_planned("the teacher is divided as the student is, and not offloaded");
  return {};
}

RecipeOptions if_distilled(const RecipePlace& place) {
  const bool is_on = preference_of(place) == "gkd" && !is_off(place.value) && !is_zero(place.scalar());
  if (!is_on) return {};
  return place.row.option == "--label-loss" ? RecipeOptions{{"--label-loss", std::string(kFlagGiven)}}
                                            : as_text(place);
}

RecipeOptions reference_model(const RecipePlace& place) {
  if (!is_off(place.value) && place.scalar() != place.other("model"))
    place.not_planned("the reference model is planned with the policy's shape");
  return {};
}

RecipeOptions reference_adapters(const RecipePlace& place) {
  const std::string said = preference_of(place);
  if (is_off(place.value) || trains_all_weights(place) || said.empty()) return {};
  return {{"--reference", "adapter"}};
}

/// A share below 1 leaves out tokens by their entropies.
RecipeOptions entropy_mask(const RecipePlace& place) {
  const std::string share = place.scalar();
  if (!share.empty() && share != "1" && share != "1.0") place.not_planned("entropies of the logits");
  return {};
}

RecipeOptions engine_offload(const RecipePlace& place) {
  if (is_reinforcement(place) && place.boolean().value_or(false))
    place.not_planned(
        "what waits in host memory while completions are generated: it is planned as staying on the GPU");
  return {};
}

}  // namespace

std::vector<RecipeRow> objective_rows() {
  return {
      {"rlhf_type",
       "--objective",
       preferences,
       {{"dpo", "dpo"},
        {"orpo", "orpo"},
        {"simpo", "simpo"},
        {"kto", "kto"},
        {"rm", "reward"},
        {"cpo", "orpo"},
        {"grpo", ""},
        {"gkd", ""},
        {"ppo", ""}}},
      {"loss_type", "", [](const RecipePlace&) { return RecipeOptions{}; }},
      {"ref_model", "", reference_model},
      {"ref_adapters", "--reference", reference_adapters},
      {"precompute_ref_log_probs", "--reference", as_word, {{"true", "precomputed"}, {"false", ""}}},
      {"teacher_model", "--teacher", teacher},
      {"teacher_adapters", "", nullptr, {}, "a teacher's adapters"},
      {"teacher_deepspeed", "", teacher_engine},
      {"teacher_model_server", "", [](const RecipePlace&) { return RecipeOptions{}; }},
      {"offload_teacher_model", "", nullptr, {}, "a teacher that waits in host memory: it stays on the GPU"},
      {"gkd_logits_topk", "--teacher-top", if_distilled},
      {"sft_alpha", "--label-loss", if_distilled},
      {"lmbda", "", [](const RecipePlace&) { return RecipeOptions{}; }},
      {"reward_model", "--reward-model", reward_models},
      {"steps_per_generation", "--steps-per-generation", if_fed},
      {"generation_batch_size", "--steps-per-generation", generation_batch},
      {"num_iterations", "--iterations", if_reinforced},
      {"num_ppo_epochs", "--iterations", if_ppo},
      {"num_mini_batches", "--mini-batches", if_ppo},
      {"local_rollout_forward_batch_size", "--rollout-batch", if_ppo},
      {"use_vllm", "", vllm},
      {"num_labels", "", labels},
      {"vllm_mode", "", vllm_mode, {{"colocate", ""}, {"server", ""}}},
      {"vllm_gpu_memory_utilization", "--vllm-memory", if_colocated_vllm},
      {"vllm_tensor_parallel_size", "--vllm-tp", if_colocated_vllm},
      {"sleep_level", "--vllm-sleep", if_colocated_vllm},
      {"offload_model", "", engine_offload},
      {"offload_optimizer", "", engine_offload},
      {"chord_sft_per_device_train_batch_size", "", nullptr, {}, "a batch of samples beside the completions"},
      {"log_entropy", "", nullptr, {}, "entropies of the logits"},
      {"top_entropy_quantile", "", entropy_mask},
      {"async_generate", "", nullptr, {}, "completions are generated while the model trains"},
      {"vllm_enable_lora",
       "",
       nullptr,
       {},
       "adapters are handed over to vLLM by themselves: the merged model is planned"},
      {"vllm_max_model_len", "", [](const RecipePlace&) { return RecipeOptions{}; }},
      {"num_generations", "", [](const RecipePlace&) { return RecipeOptions{}; }},
      {"max_completion_length", "", [](const RecipePlace&) { return RecipeOptions{}; }},
      {"beta", "", [](const RecipePlace&) { return RecipeOptions{}; }},
  };
}

// ---- images

namespace {

/// True if a recipe's images are planned: one in each sample, as large as its limit of pixels.
bool has_images(const RecipePlace& place) {
  return std::ranges::any_of(place.recipe.settings, [](const RecipeSetting& setting) {
    return std::ranges::any_of(setting.options,
                               [](const auto& option) { return option.first == "--images"; });
  });
}

}  // namespace

/// Tower and projector of an image-text model are frozen unless a key says otherwise; with adapters they get
/// none. Source: tuner_args.py _init_multimodal_full; pipelines/train/tuner.py get_target_modules.
RecipeOptions frozen_parts(const RecipePlace& place) {
  if (!trains_all_weights(place) && !has_images(place)) return {};
  const ImageTextParts model = image_text_parts(model_of(place));
  const auto is_frozen = [&](std::string_view key) {
    return place.text.root.find(key) == nullptr || place.is_on(key);
  };
  std::string parts = model.has_tower && is_frozen("freeze_vit") ? "vision" : "";
  if (model.has_projector && is_frozen("freeze_aligner")) parts += parts.empty() ? "projector" : ",projector";
  if (parts.empty()) return {};
  return {{"--freeze", parts}};
}

namespace {

/// With the model that the default is of; of a text model the key does nothing.
RecipeOptions frozen_part(const RecipePlace& place) {
  static_cast<void>(as_flag(place));
  return {};
}

RecipeOptions language_part(const RecipePlace& place) {
  if (place.boolean().value_or(false) && trains_all_weights(place))
    place.not_planned("a frozen language model: --freeze takes vision and projector");
  return {};
}

/// The limit of an image's pixels: one such image in each sample is planned where zplan knows the model with
/// images and trains on next tokens.
RecipeOptions pixels(const RecipePlace& place) {
  if (place.scalar().empty() || place.is_given("--images")) return {};
  constexpr std::int64_t kMostPixels = 1 << 30, kMostTokens = 1 << 20;
  const std::int64_t limit = parse_integer(
      fmt::format("{}:{}: {}", source_of(place.text, place.value), place.value.line, place.row.key),
      place.scalar(), 1, kMostPixels);
  if (preference_of(place).empty())
    if (const auto side = square_image(model_of(place), limit, whole(place, "max_length", kMostTokens)))
      return {{"--images", "1"}, {"--image-size", fmt::format("{}x{}", *side, *side)}};
  place.not_planned("images are planned with --images and --image-size, this is their largest size");
  return {};
}

}  // namespace

std::vector<RecipeRow> image_rows() {
  constexpr std::string_view kImages = "sizes of images and videos: --images, --image-size";
  return {{"freeze_vit", "", frozen_part},
          {"freeze_aligner", "", frozen_part},
          {"freeze_llm", "", language_part},
          {"MAX_PIXELS", "", pixels},
          {"max_pixels", "", pixels},
          {"IMAGE_MAX_TOKEN_NUM", "", nullptr, {}, kImages},
          {"VIDEO_MAX_PIXELS", "", nullptr, {}, kImages},
          {"VIDEO_MAX_TOKEN_NUM", "", nullptr, {}, kImages},
          {"FPS_MAX_FRAMES", "", nullptr, {}, kImages},
          {"MAX_NUM", "", nullptr, {}, kImages}};
}

}  // namespace swift

}  // namespace zplan
