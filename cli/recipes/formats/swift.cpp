// ms-swift's arguments: YAML or JSON of them, its args.json, or a command line.
// Source: ms-swift 4.6 and 3.12 swift/arguments/*.py, swift/trainers/arguments.py, swift/config/*.json,
// swift/rlhf_trainers/args_mixin.py, swift/cli/main.py.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/base/values.h"
#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"

namespace zplan {

namespace {

std::string command_of(const RecipeText& text) {
  const auto found = find_command(text.command);
  return found ? std::string(found->command->words.substr(found->command->words.find(' ') + 1))
               : std::string();
}

/// Returns what rlhf_type says, dpo where it says nothing; empty: no preference or reinforcement. args.json
/// of other runs has the default, too.
std::string preference_of(const RecipePlace& place) {
  const std::string command = command_of(place.text), said = place.other("rlhf_type");
  const bool is_rlhf =
      command == "rlhf" || (command.empty() && !said.empty() &&
                            (place.other("output_dir").empty() || place.text.root.find("beta") != nullptr));
  if (!is_rlhf) return {};
  return said.empty() ? "dpo" : lower_case(said);
}

bool is_reinforcement(const RecipePlace& place) { return preference_of(place) == "grpo"; }

/// A key's whole number, or what stands for it.
std::int64_t whole(const RecipePlace& place, std::string_view key, std::int64_t otherwise) {
  constexpr std::int64_t kMost = 1 << 24;
  const RecipeValue* value = place.text.root.find(key);
  if (value == nullptr || value->text.empty() || !value->open.empty()) return otherwise;
  return parse_integer(fmt::format("{}:{}: {}", source_of(place.text, *value), value->line, key), value->text,
                       0, kMost);
}

bool is_zero(const std::string& number) { return number.find_first_not_of("0.") == std::string::npos; }

// ---- the model

std::string model_of(const RecipePlace& place) {
  return place.asked.has_model ? place.asked.model : place.other("model");
}

std::string tuner_of(const RecipePlace& place) {
  for (const char* key : {"tuner_type", "train_type", "sft_type"})
    if (const std::string said = place.other(key); !said.empty()) return said;
  return "lora";
}

/// Adapters are as tuner_type says; without it LoRA.
bool trains_all_weights(const RecipePlace& place) { return tuner_of(place) == "full"; }

/// An adapter that is planned as LoRA of about as many parameters.
struct OtherTuner {
  std::string_view name;
  std::int64_t rank;      ///< 0: as lora_rank says
  std::string_view what;  ///< what is not planned of it
};
/// Ranks are of as many parameters on layers as wide as they are high. Source: ms-swift 4.6
/// pipelines/train/tuner.py, arguments/tuner_args.py; peft 0.21 tuners/boft, bone, vera, fourierft.
constexpr std::array kOtherTuners{
    OtherTuner{"longlora", 0, "attention within shifted groups of tokens: all tokens attend"},
    OtherTuner{"boft", 3, "each adapted weight is rotated anew in each forward pass"},
    OtherTuner{"bone", 2, "sums of the inputs' blocks"},
    OtherTuner{"vera", 1, "projections of rank vera_rank that all layers share"},
    OtherTuner{"fourierft", 1, "each adapted weight's update is made anew in each forward pass"},
    OtherTuner{"reft", 1, "interventions on hidden states"},
    OtherTuner{"ia3", 1, "factors of activations"},
    OtherTuner{"adapter", 16, "bottlenecks behind the feed-forward layers"},
};

/// Tower and projector train beside adapters of the language model, which drop nothing. Source: ms-swift 4.6
/// tuner_plugin/lora_llm.py.
RecipeOptions lora_beside_tower(const RecipePlace& place) {
  place.not_planned("its adapters drop no inputs (lora_dropout): they are planned as LoRA's, which do");
  RecipeOptions options{{"--method", "lora"}};
  if (image_text_parts(model_of(place)).has_tower)
    options.emplace_back("--train-tower", std::string(kFlagGiven));
  return options;
}

/// AdaLoRA's matrices have adalora_init_r ranks; its allocator keeps three numbers for each of theirs, as
/// much as three more adapters. Source: peft 0.21.2 tuners/adalora/layer.py RankAllocator.reset_ipt.
RecipeOptions adaptive_lora(const RecipePlace& place) {
  constexpr std::int64_t kFirst = 12;
  place.not_planned(
      "AdaLoRA is planned as LoRA of adalora_init_r ranks, its sums of sensitivities as three more adapters");
  return {{"--method", "lora"},
          {"--lora-rank", std::to_string(whole(place, "adalora_init_r", kFirst))},
          {"--adapters", "4"}};
}

/// Copies of layers that train alone. Source: ms-swift 4.6 swift/tuners/llamapro.py.
RecipeOptions added_blocks(const RecipePlace& place) {
  constexpr std::int64_t kBlocks = 4;
  place.not_planned("gradients of the frozen layers before the first new one, which ms-swift computes too");
  return {{"--method", "full"},
          {"--expand-blocks", std::to_string(whole(place, "llamapro_num_new_blocks", kBlocks))}};
}

RecipeOptions tuner(const RecipePlace& place) {
  const std::string name = place.scalar();
  if (name == "lora_llm") return lora_beside_tower(place);
  if (name == "adalora") return adaptive_lora(place);
  if (name == "llamapro") return added_blocks(place);
  const auto* const other = std::ranges::find(kOtherTuners, name, &OtherTuner::name);
  if (other == kOtherTuners.end()) return as_word(place);
  RecipeOptions options{{"--method", "lora"}};
  std::string rank = "LoRA";
  if (other->rank > 0) {
    options.emplace_back("--lora-rank", std::to_string(other->rank));
    rank = fmt::format("LoRA of rank {}, with about as many parameters", other->rank);
  }
  place.not_planned(fmt::format("{} is planned as {}: {}", name, rank, other->what));
  return options;
}

/// Returns `lora_rank` for LoRA, LongLoRA and full training; kOtherTuners sets the rank of the other tuners.
RecipeOptions rank_of_lora(const RecipePlace& place) {
  const std::string name = tuner_of(place);
  const bool has_rank = name.starts_with("lora") || name == "longlora" || name == "full";
  return has_rank ? as_text(place) : RecipeOptions{};
}

/// Weights in fp32 are trained with fp16's autocast. Source: model_args.py _init_mixed_precision.
RecipeOptions weights_type(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  if (place.scalar() != "float32") return as_word(place);
  const bool has_none = place.text.root.find("fp16") != nullptr && !place.is_on("fp16");
  return {{"--precision", has_none ? "fp32" : "fp16"}};
}

RecipeOptions quantised(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const std::string method = place.other("quant_method");
  if (method.empty()) {
    place.not_planned("ms-swift packs nothing without quant_method");
    return {};
  }
  if (method == "hqq") return hqq_bits(place);
  // Not needed where weights are packed already: AWQ and GPTQ stand in the model's own config.
  if (method == "awq" || method == "gptq" || method == "gptq_v2") return {};
  const std::string bits = place.scalar();
  if (method == "fp8") {
    place.not_planned("weights in fp8 are planned in 16 bits, which take more memory");
    return {};
  }
  if (method == "eetq" || method == "quanto")
    place.not_planned(
        fmt::format("{} of {} bits is planned as bitsandbytes', of the same size", method, bits));
  else if (method != "bnb")
    place.fail(fmt::format("with quant_method {}", in_quotes(method)),
               "accepted: with bnb, hqq, eetq, quanto, fp8");
  if (bits == "8") return {{"--method", "qlora"}, {"--quantization", "int8"}};
  if (bits != "4") place.fail(in_quotes(bits), "accepted: 4, 8");
  const RecipeValue* twice = place.text.root.find("bnb_4bit_use_double_quant");
  const bool single = twice != nullptr && !place.is_on("bnb_4bit_use_double_quant");
  return {{"--method", "qlora"}, {"--quantization", single ? "nf4" : "nf4-double"}};
}

/// True if a recipe's images are planned: one in each sample, as large as its limit of pixels.
bool has_images(const RecipePlace& place) {
  return std::ranges::any_of(place.recipe.settings, [](const RecipeSetting& setting) {
    return std::ranges::any_of(setting.options,
                               [](const auto& option) { return option.first == "--images"; });
  });
}

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

RecipeOptions attention(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const std::string name = lower_case(place.scalar());
  if (name.find("flash") != std::string::npos) return {{"--attention", "flash"}};
  if (name == "sdpa" || name == "eager") return {{"--attention", name}};
  place.not_planned(fmt::format("attention by {} is planned as sdpa", in_quotes(name)));
  return {};
}

/// Reads the name of an optimizer of ms-swift, which replaces `optim`.
RecipeOptions plugin(const RecipePlace& place) {
  const std::string name = place.scalar();
  // They sort parameters into groups with learning rates of their own.
  for (const char* same : {"", "default", "multimodal", "lorap"})
    if (name == same) return {};
  place.not_planned(fmt::format("states of the optimizer {}: AdamW's are planned", in_quotes(name)));
  return {};
}

RecipeOptions backend(const RecipePlace& place) {
  if (place.scalar() == "unsloth") place.not_planned("Unsloth's kernels and its checkpointing");
  return {};
}

RecipeOptions callbacks(const RecipePlace& place) {
  std::string names = place.value.text;
  for (const RecipeValue& each : place.value.items) names += " " + each.text;
  if (names.find("activation_cpu_offload") != std::string::npos)
    place.not_planned("saved activations wait in host memory");
  return {};
}

/// Sequence classification has a head of its own. Source: model_args.py task_type.
RecipeOptions task(const RecipePlace& place) {
  const std::string name = place.scalar();
  if (!name.empty() && name != "causal_lm")
    place.not_planned(fmt::format(
        "{} has no logits over the vocabulary: those of next tokens are planned, which are more", name));
  return {};
}

/// Rows without padding need a flash attention. Source: sft_args.py _check_padding_free.
RecipeOptions without_padding(const RecipePlace& place) {
  const std::string name = lower_case(place.other("attn_impl"));
  if (place.boolean().value_or(false) && name.find("flash") == std::string::npos &&
      !place.is_given("--attention"))
    place.fail(name.empty() ? "without attn_impl" : fmt::format("with attn_impl {}", in_quotes(name)),
               "accepted: with attn_impl flash_attn");
  return as_word(place);
}

RecipeOptions packed_rows(const RecipePlace& place) {
  return place.is_on("packing") ? as_text(place) : RecipeOptions{};
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

RecipeOptions megatron_key(const RecipePlace& place) {
  if (is_off(place.value)) return {};
  place.fail("an argument of megatron pt, sft, rlhf", "accepted: arguments of swift pt, sft, rlhf");
}

// ---- devices

/// One process with several GPUs spreads the layers over them. Source: swift/model/utils.py
/// get_default_device_map.
RecipeOptions devices(const RecipePlace& place) {
  const std::string list = place.scalar();
  const bool is_launched = !place.text.launchers.empty() || !place.other("NPROC_PER_NODE").empty() ||
                           !place.other("NNODES").empty();
  if (is_launched || command_of(place.text).empty() || list.empty()) return {};
  const auto count = std::ranges::count(list, ',') + 1;
  if (count > 1)
    place.fail(fmt::format("{} GPUs of one process: layers that device_map spreads over GPUs are not planned",
                           count),
               "accepted: with NPROC_PER_NODE, or one GPU");
  return place.is_given("--gpus") ? RecipeOptions{} : RecipeOptions{{"--gpus", "1"}};
}

RecipeOptions device_map(const RecipePlace& place) {
  const std::string map = lower_case(place.scalar());
  if (!map.empty() && map != "auto")
    place.not_planned("layers on other devices than one GPU of each process");
  return {};
}

/// GPUs of the run as far as they are known.
std::int64_t gpus_of(const RecipePlace& place) {
  if (place.asked.gpus) return *place.asked.gpus;
  for (const RecipeSetting& setting : place.recipe.settings)
    for (const auto& [option, value] : setting.options)
      if (option == "--gpus") return parse_integer(setting.key, value, 1, kMostGpus);
  return 1;
}

/// Sixteen samples a step, and one micro-batch under GRPO. Source: trainers/arguments.py
/// gradient_accumulation_steps; rlhf_args.py _set_default.
RecipeOptions default_accumulation(const RecipePlace& place) {
  if (is_reinforcement(place)) return {{"--grad-accum", "1"}};
  constexpr std::int64_t kSamples = 16;
  const std::int64_t once =
      std::max<std::int64_t>(1, whole(place, "per_device_train_batch_size", 1)) * gpus_of(place);
  return {{"--grad-accum", std::to_string(std::max<std::int64_t>(1, (kSamples + once - 1) / once))}};
}

// ---- frameworks

using nlohmann::json;

RecipeOptions fsdp_options(const RecipePlace& place, const json& config) {
  const json words = config.value("fsdp", json("full_shard auto_wrap"));
  const json inside = config.value("fsdp_config", json::object());
  const auto is_on = [&](const char* key, bool otherwise) {
    const json said = inside.is_object() ? inside.value(key, json(otherwise)) : json(otherwise);
    return said.is_boolean() ? said.get<bool>() : otherwise;
  };
  const std::string text = words.is_string() ? words.get<std::string>() : "full_shard";
  const bool keeps = text.find("shard_grad_op") != std::string::npos;
  RecipeOptions options{{"--framework", "fsdp"},
                        {"--zero", is_on("reshard_after_forward", !keeps) ? "3" : "2"}};
  if (text.find("offload") != std::string::npos || is_on("offload_params", false))
    options.emplace_back("--offload", "all");
  if (is_on("activation_checkpointing", false)) options.emplace_back("--checkpointing", "full");
  if (is_on("activation_cpu_offload", false)) place.not_planned("saved activations wait in host memory");
  if (inside.is_object() && inside.value("fsdp_version", json(2)) == json(1))
    place.not_planned("FSDP1 is planned as FSDP2");
  return options;
}

/// "fsdp2", the path of a config, or its text. Source: sft_args.py _init_fsdp, swift/config/fsdp2.json.
RecipeOptions fsdp(const RecipePlace& place) {
  const std::string said = place.value.kind == RecipeKind::scalar ? place.value.text : std::string();
  if (said.empty()) return {};
  if (said == "fsdp2") return {{"--framework", "fsdp"}, {"--zero", "3"}, {"--checkpointing", "full"}};
  const bool is_path = said.ends_with(".json");
  std::string text = said;
  if (is_path) {
    const auto found = find_named(place.text, said);
    if (!found) {
      place.not_planned(fmt::format("{} is not there: stage and offload are left open", in_quotes(said)));
      return {{"--framework", "fsdp"}};
    }
    text = found->text;
  }
  const json config = json::parse(text, nullptr, false);
  if (config.is_object()) return fsdp_options(place, config);
  if (is_path) place.fail(fmt::format("{}: no JSON object", in_quotes(said)), "accepted: fsdp2, or a config");
  return fsdp_options(place, json{{"fsdp", said}});
}

RecipeOptions evaluated_batch(const RecipePlace& place) {
  const std::string share = place.other("split_dataset_ratio");
  const RecipeValue* data = place.text.root.find("val_dataset");
  const bool given = data != nullptr && (!data->items.empty() || !data->text.empty());
  const std::string strategy = place.other("eval_strategy");
  return strategy != "no" && (!is_zero(share) || given) ? as_text(place) : RecipeOptions{};
}

// ---- preferences and reinforcement

RecipeOptions preferences(const RecipePlace& place) {
  const std::string said = preference_of(place);
  if (said.empty() || said == "grpo" || said == "gkd") return {};  // the latter by their defaults
  if (said == "cpo") place.not_planned("CPO is planned as ORPO, whose loss is of the same tensors");
  if (said == "ppo") return {{"--objective", "ppo"}};
  return as_word(place);
}

RecipeOptions default_preference(const RecipePlace& place) {
  return preference_of(place) == "dpo" ? RecipeOptions{{"--objective", "dpo"}} : RecipeOptions{};
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
  return preference_of(place) == "gkd" && (share.empty() || !is_zero(share));
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
  const std::string mode = place.other("vllm_mode");
  const bool colocated = place.is_on("use_vllm") && mode != "server";
  options.emplace_back("--rollout", place.is_on("use_vllm") ? mode : "trainer");
  if (colocated && place.other("vllm_gpu_memory_utilization").empty())
    options.emplace_back("--vllm-memory", "0.9");
  const std::int64_t steps = whole(place, "gradient_accumulation_steps", 1);
  if (steps > 1 && place.other("steps_per_generation").empty() &&
      place.other("generation_batch_size").empty())
    options.emplace_back("--steps-per-generation", std::to_string(steps));
  return options;
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
  const std::string mode = place.other("vllm_mode");
  const bool colocated = place.is_on("use_vllm") && mode != "server";
  options.emplace_back("--rollout", place.is_on("use_vllm") ? mode : "trainer");
  if (!colocated) return options;
  if (place.other("vllm_gpu_memory_utilization").empty()) options.emplace_back("--vllm-memory", "0.9");
  return options;
}

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
  if (rolls_out(place) && !place.is_on("use_vllm"))
    place.fail("without use_vllm", "accepted: with use_vllm true");
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
  return rolls_out(place) && place.is_on("use_vllm") && place.other("vllm_mode") != "server"
             ? as_text(place)
             : RecipeOptions{};
}

RecipeOptions if_reinforced(const RecipePlace& place) {
  return is_reinforcement(place) ? as_text(place) : RecipeOptions{};
}

RecipeOptions if_fed(const RecipePlace& place) { return rolls_out(place) ? as_text(place) : RecipeOptions{}; }

RecipeOptions if_ppo(const RecipePlace& place) {
  return preference_of(place) == "ppo" ? as_text(place) : RecipeOptions{};
}

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

/// Sequences are divided while next tokens are trained.
RecipeOptions divided_sequences(const RecipePlace& place) {
  if (preference_of(place).empty() || whole(place, place.row.key, 1) <= 1) return as_text(place);
  place.not_planned(fmt::format(
      "sequence parallelism of {} is planned as whole sequences on each GPU, which take more memory",
      preference_of(place)));
  return {};
}

/// Liger's loss of generated answers. Source: ms-swift 4.6 rlhf_trainers/gkd_trainer.py _prepare_liger_loss,
/// rlhf_trainers/grpo_trainer.py compute_liger_loss.
RecipeOptions liger_of_answers(const RecipePlace& place) {
  const std::string said = preference_of(place);
  if (place.boolean().value_or(false) && (said == "gkd" || said == "grpo"))
    place.not_planned("Liger's loss holds slices of the logits: all of them are planned, which take more");
  return {};
}

/// Samples of a generation over all GPUs, in micro-steps of them.
RecipeOptions generation_batch(const RecipePlace& place) {
  if (!rolls_out(place) || place.scalar().empty() || !place.other("steps_per_generation").empty()) return {};
  const std::int64_t once =
      std::max<std::int64_t>(1, whole(place, "per_device_train_batch_size", 1)) * gpus_of(place);
  const std::int64_t samples = whole(place, "generation_batch_size", 0);
  if (samples <= 0 || samples % once != 0) {
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

constexpr std::string_view kImages = "sizes of images and videos: --images, --image-size";
constexpr std::string_view kWhichTrain = "which weights train";

std::vector<RecipeRow> model_rows() {
  std::vector<std::pair<std::string_view, std::string_view>> methods{
      {"lora", "lora"}, {"full", "full"}, {"lora_llm", "lora"}, {"adalora", "lora"}, {"llamapro", "full"}};
  for (const OtherTuner& each : kOtherTuners) methods.emplace_back(each.name, "lora");
  return {
      {"model", "--model", as_model},
      {"tuner_type", "--method", tuner, methods},
      {"train_type", "--method", tuner, methods},
      {"sft_type", "--method", tuner, methods},
      {"tuner_backend", "", backend},
      {"quant_bits", "", quantised},
      {"quant_method",
       "",
       as_word,
       {{"bnb", ""},
        {"hqq", ""},
        {"awq", ""},
        {"gptq", ""},
        {"gptq_v2", ""},
        {"eetq", ""},
        {"quanto", ""},
        {"fp8", ""}}},
      {"model", "--quantization", as_packed_model},
      {"bnb_4bit_quant_type", "", as_word, {{"nf4", ""}}},
      {"bnb_4bit_use_double_quant", "", as_word, {{"true", ""}, {"false", ""}}},
      {"bnb_4bit_quant_storage",
       "--quant-storage",
       as_word,
       {{"uint8", "uint8"}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}},
      {"lora_rank", "--lora-rank", rank_of_lora},
      {"lora_dropout", "--lora-dropout", as_text},
      {"target_modules", "--lora-targets", as_targets},
      {"target_regex", "--lora-targets", as_targets},
      {"target_parameters", "", nullptr, {}, "adapters on parameters of experts"},
      {"modules_to_save", "--modules-to-save", as_list},
      {"use_dora", "--dora", as_flag},
      {"lora_dtype",
       "",
       as_word,
       {{"float32", ""},
        {"bfloat16", "--no-autocast-adapters"},
        {"float16", "--no-autocast-adapters"},
        {"none", ""}}},
      {"lora_bias", "", as_word, {{"none", ""}, {"all", ""}}},
      {"torch_dtype",
       "--precision",
       weights_type,
       {{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}},
      {"attn_impl", "--attention", attention},
      {"task_type", "", task},
      {"device_map", "", device_map},
      {"freeze_vit", "", frozen_part},
      {"freeze_aligner", "", frozen_part},
      {"freeze_llm", "", language_part},
      {"freeze_parameters", "", nullptr, {}, kWhichTrain},
      {"freeze_parameters_regex", "", nullptr, {}, kWhichTrain},
      {"freeze_parameters_ratio", "", nullptr, {}, kWhichTrain},
      {"trainable_parameters", "", nullptr, {}, kWhichTrain},
      {"trainable_parameters_regex", "", nullptr, {}, kWhichTrain},
      {"MAX_PIXELS", "", pixels},
      {"max_pixels", "", pixels},
      {"IMAGE_MAX_TOKEN_NUM", "", nullptr, {}, kImages},
      {"VIDEO_MAX_PIXELS", "", nullptr, {}, kImages},
      {"VIDEO_MAX_TOKEN_NUM", "", nullptr, {}, kImages},
      {"FPS_MAX_FRAMES", "", nullptr, {}, kImages},
      {"MAX_NUM", "", nullptr, {}, kImages},
  };
}

std::vector<RecipeRow> rollout_rows() {
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

std::vector<RecipeRow> training_rows() {
  const std::vector<std::pair<std::string_view, std::string_view>> either{{"true", ""}, {"false", ""}};
  return {
      {"NPROC_PER_NODE", "--gpus", as_processes},
      {"NNODES", "--nodes", as_nodes},
      {"CUDA_VISIBLE_DEVICES", "", devices},
      {"PYTORCH_CUDA_ALLOC_CONF", "", as_allocator},
      {"PYTORCH_ALLOC_CONF", "", as_allocator},
      {"max_length", "--seq", sample_length},
      {"packing_length", "--seq", packed_rows},
      {"sequence_parallel_size", "--sp", divided_sequences},
      {"deepspeed_autotp_size", "--tp", as_text},
      {"zero_hpz_partition_size", "", nullptr, {}, "ZeRO++: a copy of the weights on each node"},
      {"packing", "", without_padding, either},
      {"padding_free", "", without_padding, either},
      {"save_only_model", "", as_word, either},
      {"vit_gradient_checkpointing", "", as_word, either},
      {"use_logits_to_keep", "", nullptr, {}, "logits of the labels' tokens alone: all are planned"},
      {"predict_with_generate", "", nullptr, {}, "evaluation that generates text"},
      {"optimizer", "", plugin},
      {"callbacks", "", callbacks},
      {"use_galore", "", nullptr, {}, "GaLore's projected states"},
      {"CELOSS_PARALLEL_SIZE", "", nullptr, {}, "slices of the tokens that the cross-entropy runs over"},
      {"lisa_activated_layers", "", nullptr, {}, "LISA trains some layers at a time"},
      {"use_ray", "", nullptr, {}, "roles of GPUs under Ray"},
      {"tensor_model_parallel_size", "", megatron_key},
      {"pipeline_model_parallel_size", "", megatron_key},
      {"expert_model_parallel_size", "", megatron_key},
      {"context_parallel_size", "", megatron_key},
      {"recompute_granularity", "", megatron_key},
  };
}

std::vector<RecipeRow> swift_rows() {
  std::vector<RecipeRow> all = model_rows();
  for (const auto& more : {rollout_rows(), training_rows()}) all.insert(all.end(), more.begin(), more.end());
  for (RecipeRow& each : training_arguments_rows()) {
    if (each.key.starts_with("fsdp_config.")) continue;
    if (each.key == "deepspeed")
      each.words = {{"zero0", "--framework deepspeed --zero 0"},
                    {"zero1", "--framework deepspeed --zero 1 --offload none"},
                    {"zero2", "--framework deepspeed --zero 2 --offload none"},
                    {"zero3", "--framework deepspeed --zero 3 --offload none"},
                    {"zero2_offload", "--framework deepspeed --zero 2 --offload optimizer"},
                    {"zero3_offload", "--framework deepspeed --zero 3 --offload all"}};
    if (each.key == "per_device_eval_batch_size") each.translate = evaluated_batch;
    if (each.key == "fsdp") each.translate = fsdp;
    all.push_back(std::move(each));
  }
  all.push_back({"use_liger_kernel", "", liger_of_answers});
  return all;
}

/// Source: ms-swift 4.6 swift/cli/main.py.
std::vector<RecipeCommand> swift_commands() {
  return {{.words = "swift sft", .config = "first"},
          {.words = "swift pt", .config = "first"},
          {.words = "swift rlhf", .config = "first"},
          {.words = "swift infer", .does = "runs a model"},
          {.words = "swift export", .does = "merges, quantizes or converts a model"},
          {.words = "swift merge-lora", .does = "merges adapters into a model"},
          {.words = "swift eval", .does = "evaluates a model"},
          {.words = "swift deploy", .does = "serves a model"},
          {.words = "swift rollout", .does = "serves a model that generates for another command's training"},
          {.words = "swift sample", .does = "generates data with a model"},
          {.words = "swift app", .does = "serves a model in a web page"},
          {.words = "swift web-ui", .does = "opens a web page"}};
}

}  // namespace

const RecipeTable& swift_table() {
  constexpr std::string_view kTrains = "output_dir num_train_epochs learning_rate";
  static const RecipeTable table{
      .format = RecipeFormat::swift,
      .title = "ms-swift",
      .trainers = "swift",
      .defaults = {{"tuner_type", "--method", "lora"},
                   {"per_device_train_batch_size", "--micro-batch", "1"},
                   {"gradient_accumulation_steps", "--grad-accum", "", default_accumulation},
                   {"torch_dtype", "--precision", "bf16"},
                   {"rlhf_type", "--objective", "", default_preference},
                   {"rlhf_type", "--completion-length", "", reinforcement},
                   {"freeze_vit", "--freeze", "", frozen_parts},
                   {"deepspeed", "--framework", "torch"}},
      .rows = swift_rows(),
      .telling = {"tuner_type", "train_type", "target_modules", "attn_impl", "rlhf_type", "quant_bits",
                  "split_dataset_ratio", "sampler_engine"},
      .commands = swift_commands(),
      .trains_nothing = {{.key = "sampler_engine", .does = "generates data with a model"},
                         {.key = "sampler_type", .does = "generates data with a model"},
                         {.key = "infer_backend", .unless = kTrains, .does = "runs a model"},
                         {.key = "eval_backend", .unless = kTrains, .does = "evaluates a model"},
                         {.key = "merge_lora", .unless = kTrains, .does = "merges adapters into a model"}},
      .trains = "a command that trains (swift pt, sft, rlhf)",
      .start = [](const RecipeText& text) {
        const bool is_rlhf = text.root.find("rlhf_type") != nullptr;
        return fmt::format("NPROC_PER_NODE={{gpus}} swift {} {{file}}", is_rlhf ? "rlhf" : "sft");
      }};
  return table;
}

}  // namespace zplan
