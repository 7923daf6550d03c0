// ms-swift's arguments: YAML or JSON of them, its args.json, or a command line.
// Source: ms-swift 4.6 and 3.12 swift/arguments/*.py, swift/trainers/arguments.py, swift/config/*.json,
// swift/rlhf_trainers/args_mixin.py, swift/cli/main.py.

#include "cli/recipes/formats/swift.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/base/values.h"
#include "models/base/error.h"

namespace zplan {

namespace {

using namespace swift;

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

/// Sequences are divided while next tokens are trained.
RecipeOptions divided_sequences(const RecipePlace& place) {
  if (preference_of(place).empty() || whole(place, place.row.key, 1) <= 1) return as_text(place);
  place.not_planned(fmt::format(
      "sequence parallelism of {} is planned as whole sequences on each GPU, which take more memory",
      preference_of(place)));
  return {};
}

RecipeOptions evaluated_batch(const RecipePlace& place) {
  const std::string share = place.other("split_dataset_ratio");
  const RecipeValue* data = place.text.root.find("val_dataset");
  const bool given = data != nullptr && (!data->items.empty() || !data->text.empty());
  const std::string strategy = place.other("eval_strategy");
  return strategy != "no" && (!is_zero(share) || given) ? as_text(place) : RecipeOptions{};
}

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
      {"freeze_parameters", "", nullptr, {}, kWhichTrain},
      {"freeze_parameters_regex", "", nullptr, {}, kWhichTrain},
      {"freeze_parameters_ratio", "", nullptr, {}, kWhichTrain},
      {"trainable_parameters", "", nullptr, {}, kWhichTrain},
      {"trainable_parameters_regex", "", nullptr, {}, kWhichTrain},
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
  for (const auto& more : {image_rows(), objective_rows(), training_rows()})
    all.insert(all.end(), more.begin(), more.end());
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
