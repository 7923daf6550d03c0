// axolotl's config. Source: axolotl 0.19 utils/schemas/*.py, utils/config/__init__.py, loaders/model.py,
// loaders/adapter.py, integrations/*/args.py.

#include "cli/recipes/formats/axolotl.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/base/values.h"
#include "models/base/error.h"

namespace zplan {

namespace axolotl {

namespace {

/// True if a plugin of this class is registered: keys of a plugin do nothing without it.
bool has_plugin(const RecipePlace& place, std::string_view name) {
  const RecipeValue* plugins = place.text.root.find("plugins");
  return plugins != nullptr && std::ranges::any_of(plugins->items, [&](const RecipeValue& each) {
           return each.text == name || each.text.ends_with("." + std::string(name));
         });
}

// ---- Adapters and packed weights. Source: loaders/model.py _set_quantization_config.

/// bitsandbytes packs into 4 bits under qlora alone, into 8 under lora alone.
RecipeOptions packed_by_bits(const RecipePlace& place) {
  if (!place.boolean().value_or(false)) return {};
  const std::string adapter = place.other("adapter");
  if (adapter.empty())
    place.fail("without an adapter", "accepted: with adapter: lora or qlora, or without this key");
  const bool is_four = place.row.key == "load_in_4bit";
  if (adapter != (is_four ? "qlora" : "lora")) {
    place.not_planned(fmt::format("axolotl packs nothing with adapter {}", adapter));
    return {};
  }
  if (!is_four) return {{"--method", "qlora"}, {"--quantization", "int8"}};
  const RecipeValue* twice = place.text.root.find_path("bnb_config_kwargs.bnb_4bit_use_double_quant");
  const bool single = twice != nullptr && lower_case(twice->text) == "false";
  const std::string storage = place.other("bnb_config_kwargs.bnb_4bit_quant_storage");
  const std::string_view kind = storage == "uint8"     ? "uint8"
                                : storage == "float16" ? "fp16"
                                : storage == "float32" ? "fp32"
                                                       : "bf16";
  return {{"--method", "qlora"},
          {"--quantization", single ? "nf4" : "nf4-double"},
          {"--quant-storage", std::string(kind)}};
}

RecipeOptions packed_type(const RecipePlace& place) {
  if (place.scalar() != "nf4")
    place.not_planned(fmt::format("{} is planned as nf4", in_quotes(place.scalar())));
  return {};
}

/// `gptq` says of the base that GPTQ packed it; without a name that says so, into 4 bits.
/// Source: utils/schemas/peft.py LoraConfig.gptq.
RecipeOptions packed_by_gptq(const RecipePlace& place) {
  const RecipeOptions on = as_word(place);
  const std::string name = place.other("base_model");
  return on.empty() || unpacked_name(name) == name ? on : RecipeOptions{};
}

/// Weights that peft.backend packs as the model is loaded. Source: utils/schemas/peft.py auto_detect_qlora.
RecipeOptions packed_by_backend(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const std::string backend = place.other("peft.backend"), type = lower_case(place.scalar());
  if (backend == "torchao" && type == "int8")
    return {{"--method", "qlora"}, {"--quantization", "torchao-int8"}};
  if (backend == "torchao")
    place.fail(fmt::format("{} with peft.backend torchao", in_quotes(type)), "accepted: int8");
  return as_word(place);
}

/// Mxfp4Config and FineGrainedFP8Config: weights that stay packed, unless they are unpacked as they load.
/// Source: utils/schemas/model.py.
RecipeOptions packed_by_config(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing || place.is_on("model_quantization_config_kwargs.dequantize"))
    return {};
  place.fail(in_quotes(place.scalar()),
             "accepted: without it, or with model_quantization_config_kwargs: {dequantize: true}");
}

RecipeOptions linear(const RecipePlace& place) {
  return place.boolean().value_or(false) ? RecipeOptions{{"--lora-targets", "all-linear"}} : RecipeOptions{};
}

/// Fused kernels of adapters, which axolotl turns on by itself.
/// Source: utils/schemas/config.py check_auto_enable_lora_kernels.
RecipeOptions adapter(const RecipePlace& place) {
  RecipeOptions options = as_word(place);
  if (options.empty()) return {};
  const bool is_chosen =
      std::ranges::any_of(std::vector<std::string_view>{"lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel",
                                                        "lora_embedding_kernel", "rl"},
                          [&](std::string_view key) { return !place.other(key).empty(); });
  const bool is_eight = place.is_on("load_in_8bit") && place.other("adapter") == "lora";
  if (!is_chosen && !is_eight && !place.is_on("trust_remote_code") && !(shards(place) && !is_fsdp2(place)))
    place.recipe.not_planned.push_back(
        {"lora_*_kernel", place.value.line, "axolotl turns on fused kernels of adapters, which keep less"});
  return options;
}

// ---- Precision. Source: utils/config/__init__.py resolve_dtype.

RecipeOptions bf16(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const RecipeOptions said = as_word(place);
  const bool half = place.is_on("fp16") || place.is_on("float16");
  if (lower_case(place.scalar()) == "auto") return half ? RecipeOptions{} : said;
  if (!said.empty() || half || place.is_on("bfloat16") || place.is_on("load_in_8bit")) return said;
  return {{"--precision", "fp32"}};
}

RecipeOptions fp16(const RecipePlace& place) {
  return place.is_on("bf16") || place.other("bf16") == "full" ? RecipeOptions{} : as_word(place);
}

// ---- Attention. Source: utils/schemas/enums.py CANONICAL_ATTN_IMPLS.

RecipeOptions attention(const RecipePlace& place) {
  std::string name = place.scalar();
  if (name.empty()) return {};
  name = name.substr(0, name.find_first_of(":@"));
  if (name.find('/') != std::string::npos && name.find("flash-attn") == std::string::npos) {
    place.not_planned("a kernel of the Hub is planned as flash attention");
    return {{"--attention", "flash"}};
  }
  if (name.find('/') != std::string::npos) return {{"--attention", "flash"}};
  if (name == "flex_attention" || name == "sage" || name == "fp8")
    place.not_planned(fmt::format("{} is planned as flash attention", name));
  return as_word(place);
}

RecipeOptions other_attention(const RecipePlace& place) {
  const RecipeOptions options = as_word(place);
  if (!options.empty()) place.not_planned("it is planned as flash attention");
  return options;
}

// ---- Checkpointing. Source: utils/schemas/validation.py check_gradient_checkpointing_w_offload,
// core/trainers/mixins/activation_checkpointing.py.

/// Inputs of layers wait on the host where all weights train. With adapters it is all that is saved, and
/// nothing is computed again.
RecipeOptions offloaded_activations(const RecipePlace& place) {
  const bool adapts = !place.other("adapter").empty();
  if (adapts && place.other("deepspeed").empty()) {
    place.recipe.not_planned.push_back(
        {"gradient_checkpointing", place.value.line,
         "axolotl computes no layer again where adapters' activations wait in host memory"});
    return {{"--checkpoint-offload", "trl"}, {"--checkpointing", "none"}};
  }
  if (adapts) {
    place.not_planned("all saved activations wait in host memory: planned as checkpointing, without it");
    return {};
  }
  if (place.other("deepspeed").empty()) {
    place.not_planned("inputs of layers wait in host memory: planned on the GPU, where they take more");
    return {};
  }
  return {{"--checkpoint-offload", "alst"}};
}

RecipeOptions checkpointed(const RecipePlace& place) {
  const std::string how = lower_case(place.scalar());
  if (how != "offload" && how != "offload_disk" && how != "unsloth") return as_word(place);
  RecipeOptions options{{"--checkpointing", "full"}};
  for (auto& each : offloaded_activations(place)) options.push_back(std::move(each));
  return options;
}

RecipeOptions activation_offloading(const RecipePlace& place) {
  const bool is_off = place.value.kind == RecipeKind::nothing || !place.boolean().value_or(true);
  return is_off ? RecipeOptions{} : offloaded_activations(place);
}

RecipeOptions selective(const RecipePlace& place) {
  const bool is_off = place.value.kind == RecipeKind::nothing || !place.boolean().value_or(true);
  if (is_off) return {};
  place.not_planned("it is planned as keeping the outputs of matrix products and attention");
  return {{"--checkpointing", "selective"}};
}

// ---- Losses and kernels of plugins.

RecipeOptions plugins(const RecipePlace& place) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNamed{
      {{"SpectrumPlugin", "Spectrum trains the layers of the highest signal alone: all are planned"},
       {"KDPlugin", "knowledge distillation: the teacher's log-probabilities are not counted"},
       {"DiffusionPlugin", "training as a diffusion model is planned as of next tokens"},
       {"LLMCompressorPlugin", "sparse weights are planned as dense ones"},
       {"MoraPlugin", "MoRA's adapters are planned as LoRA's"},
       {"DenseMixerPlugin", "DenseMixer runs all experts: those chosen are planned"},
       {"GrokfastPlugin", "Grokfast keeps a moving average of all gradients, a copy of them"},
       {"NemoGymPlugin", "environments of NeMo Gym"}}};
  RecipeOptions options;
  for (const RecipeValue& each : place.value.items) {
    const std::string name = each.text.substr(each.text.rfind('.') + 1);
    const RecipeValue* cut = place.text.root.find("cut_cross_entropy");
    if (name == "CutCrossEntropyPlugin" && (cut == nullptr || place.is_on("cut_cross_entropy")))
      options.emplace_back("--cut-cross-entropy", kFlagGiven);
    for (const auto& [plugin, why] : kNamed)
      if (name == plugin) place.not_planned(std::string(why));
    if (!each.text.starts_with("axolotl."))
      place.not_planned(fmt::format("what {} changes", in_quotes(each.text)));
  }
  return options;
}

RecipeOptions cut_cross_entropy(const RecipePlace& place) {
  const RecipeOptions options = as_flag(place);
  if (options.empty() || has_plugin(place, "CutCrossEntropyPlugin")) return options;
  place.not_planned("it does nothing without CutCrossEntropyPlugin among the plugins");
  return {};
}

RecipeOptions liger_loss(const RecipePlace& place) {
  const RecipeOptions options = as_flag(place);
  if (options.empty() || has_plugin(place, "LigerPlugin")) return options;
  place.not_planned("it does nothing without LigerPlugin among the plugins");
  return {};
}

/// Liger's kernels that each have a switch. Norms and gated activations together are one option here; one of
/// them alone is planned as PyTorch's, which take more.
RecipeOptions liger_norms(const RecipePlace& place) {
  if (!place.boolean().value_or(false)) return {};
  const bool gates = place.is_on("liger_glu_activation") || place.is_on("liger_swiglu");
  if (!has_plugin(place, "LigerPlugin"))
    place.not_planned("it does nothing without LigerPlugin among the plugins");
  else if (!gates)
    place.not_planned(
        "Liger's norms without its gated activations are planned as PyTorch's, which take more");
  else
    return {{"--kernels", "liger"}};
  return {};
}

RecipeOptions liger_gates(const RecipePlace& place) {
  if (place.boolean().value_or(false) && !place.is_on("liger_rms_norm"))
    place.not_planned(
        "Liger's gated activations without its norms are planned as PyTorch's, which take more");
  return {};
}

// ---- Batches and evaluation.

/// Source: utils/config/__init__.py normalize_config.
RecipeOptions whole_batch(const RecipePlace& place) {
  const std::int64_t whole = number_of(place, "batch_size", 0),
                     micro = number_of(place, "micro_batch_size", 1);
  const RecipeValue* steps = place.text.root.find("gradient_accumulation_steps");
  if (whole == 0 || (steps != nullptr && steps->kind != RecipeKind::nothing)) return {};
  if (steps == nullptr) {
    place.not_planned("it does nothing: gradient_accumulation_steps is 1 unless it is said");
    return {};
  }
  return {
      {"--grad-accum", std::to_string(std::max<std::int64_t>(1, whole / std::max<std::int64_t>(1, micro)))}};
}

RecipeOptions evaluation_batch(const RecipePlace& place) {
  const std::string share = place.other("val_set_size");
  const bool evaluates = !share.empty() && share.find_first_not_of("0.") != std::string::npos;
  return evaluates || place.text.root.find("test_datasets") != nullptr ? as_text(place) : RecipeOptions{};
}

RecipeOptions workers(const RecipePlace& place) {
  return place.is_on("use_ray") ? as_text(place) : RecipeOptions{};
}

/// A model's configuration from another repository than its weights.
RecipeOptions other_config(const RecipePlace& place) {
  if (!place.scalar().empty() && place.scalar() != place.other("base_model"))
    place.not_planned("the model's configuration is read from base_model");
  return {};
}

/// Images are in the data set.
RecipeOptions processor(const RecipePlace& place) {
  if (!place.scalar().empty())
    place.not_planned("samples with images: text alone is planned unless --images and --image-size say them");
  return {};
}

RecipeOptions device_map(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::scalar && place.scalar() != "auto")
    place.not_planned("layers are planned on one GPU each rank");
  return {};
}

RecipeOptions experts(const RecipePlace& place) {
  const std::string name = place.scalar();
  if (!name.empty() && name != "grouped_mm" && name != "eager")
    place.not_planned(fmt::format("{} is planned as grouped_mm", in_quotes(name)));
  return {};
}

std::vector<RecipeRow> axolotl_rows() {
  const std::vector<std::pair<std::string_view, std::string_view>> seen{{"true", ""}, {"false", ""}};
  std::vector<RecipeRow> rows{
      {"base_model", "--model", as_model},
      {"base_model_config", "", other_config},
      {"adapter", "--method", adapter, {{"lora", "lora"}, {"qlora", "lora"}}},
      {"load_in_8bit", "", packed_by_bits},
      {"load_in_4bit", "", packed_by_bits},
      {"bnb_config_kwargs.bnb_4bit_quant_type", "", packed_type},
      {"bnb_config_kwargs.bnb_4bit_use_double_quant", "", as_word, seen},
      {"bnb_config_kwargs.bnb_4bit_quant_storage",
       "",
       as_word,
       {{"bfloat16", ""}, {"float16", ""}, {"float32", ""}, {"uint8", ""}}},
      {"gptq", "", packed_by_gptq, {{"true", "--method qlora --quantization gptq-int4"}, {"false", ""}}},
      {"peft.backend", "", as_word, {{"bnb", ""}, {"torchao", ""}}},
      {"peft.weight_dtype",
       "",
       packed_by_backend,
       {{"nf4", "--method qlora --quantization nf4-double --quant-storage bf16"},
        {"int8", "--method qlora --quantization int8"}}},
      {"model_quantization_config", "", packed_by_config},
      {"model_quantization_config_kwargs.dequantize", "", as_word, seen},
      {"base_model", "--quantization", as_packed_model},
      {"lora_r", "--lora-rank", as_text},
      {"lora_dropout", "--lora-dropout", as_text},
      {"lora_target_modules", "--lora-targets", as_targets},
      {"lora_target_linear", "--lora-targets", linear},
      {"lora_modules_to_save", "--modules-to-save", as_list},
      {"peft_use_dora", "--dora", as_flag},
      {"peft_ensure_weight_tying", "--tie-saved-modules", as_flag},
      {"peft_autocast_adapter_dtype", "", as_word, {{"true", ""}, {"false", "--no-autocast-adapters"}}},
      {"freeze_mm_modules", "--freeze", as_word, {{"true", "vision,projector"}, {"false", ""}}},
      {"sequence_len", "--seq", as_text},
      {"sample_packing", "", as_word, seen},
      {"pad_to_sequence_len", "", as_word, seen},
      {"micro_batch_size", "--micro-batch", as_text},
      {"batch_size", "--grad-accum", whole_batch},
      {"gradient_accumulation_steps", "--grad-accum", as_text},
      {"optimizer", "--optimizer", as_optimizer},
      {"float16", "--precision", as_word, {{"true", "fp16"}, {"false", ""}}},
      {"bfloat16", "--precision", as_word, {{"true", "bf16"}, {"false", ""}}},
      {"fp16", "--precision", fp16, {{"true", "fp16"}, {"false", ""}}},
      {"bf16", "--precision", bf16, {{"true", "bf16"}, {"auto", "bf16"}, {"full", "bf16"}, {"false", ""}}},
      {"gradient_checkpointing", "--checkpointing", checkpointed, {{"true", "full"}, {"false", "none"}}},
      {"gradient_checkpointing_kwargs.use_reentrant",
       "reentrant checkpointing",
       as_word,
       {{"true", "on"}, {"false", "off"}}},
      {"activation_offloading", "", activation_offloading},
      {"selective_checkpointing", "--checkpointing", selective},
      {"eager_attention", "--attention", as_word, {{"true", "eager"}, {"false", ""}}},
      {"sdp_attention", "--attention", as_word, {{"true", "sdpa"}, {"false", ""}}},
      {"flash_attention", "--attention", as_word, {{"true", "flash"}, {"false", ""}}},
      {"flex_attention", "--attention", other_attention, {{"true", "flash"}, {"false", ""}}},
      {"sage_attention", "--attention", other_attention, {{"true", "flash"}, {"false", ""}}},
      {"xformers_attention", "--attention", as_word, {{"true", "flash"}, {"false", ""}}},
      {"attn_implementation",
       "--attention",
       attention,
       {{"eager", "eager"},
        {"sdpa", "sdpa"},
        {"flash_attention_2", "flash"},
        {"flash_attention_3", "flash"},
        {"flash_attention_4", "flash"},
        {"flash_attention_torch", "flash"},
        {"flex_attention", "flash"},
        {"xformers", "flash"},
        {"sage", "flash"},
        {"fp8", "flash"}}},
      {"plugins", "", plugins},
      {"liger_fused_linear_cross_entropy", "--fused-loss", liger_loss},
      {"liger_rms_norm", "--kernels", liger_norms},
      {"liger_glu_activation", "", liger_gates},
      {"liger_swiglu", "", liger_gates},
      {"liger_rope", "", as_word, seen},
      {"cut_cross_entropy", "--cut-cross-entropy", cut_cross_entropy},
      {"chunked_cross_entropy", "", as_word, {{"true", "--loss-chunks 8"}, {"false", ""}}},
      {"chunked_cross_entropy_num_chunks", "--loss-chunks", as_text},
      {"experts_implementation", "", experts},
      {"num_epochs", "--epochs", as_text},
      {"eval_batch_size", "--eval-batch", evaluation_batch},
      {"save_only_model", "", as_word, seen},
      {"ray_num_workers", "--gpus", workers},
      {"processor_type", "", processor},
      {"device_map", "", device_map},
  };
  for (const auto& more : {parallel_rows(), objective_rows(), rows_not_planned()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

/// Source: cli/main.py.
std::vector<RecipeCommand> commands() {
  return {
      {.words = "axolotl preprocess", .does = "prepares data"},
      {.words = "axolotl inference", .does = "runs a model"},
      {.words = "axolotl evaluate", .does = "evaluates a model"},
      {.words = "axolotl lm-eval", .does = "evaluates a model"},
      {.words = "axolotl merge-lora", .does = "merges adapters into a model"},
      {.words = "axolotl merge-sharded-fsdp-weights", .does = "merges a checkpoint's shards"},
      {.words = "axolotl quantize", .does = "quantizes a model"},
      {.words = "axolotl vllm-serve", .does = "serves a model that generates for another command's training"},
      {.words = "axolotl fetch", .does = "fetches examples"}};
}

}  // namespace

}  // namespace axolotl

const RecipeTable& axolotl_table() {
  static const RecipeTable table{.format = RecipeFormat::axolotl,
                                 .title = "axolotl",
                                 .trainers = "axolotl",
                                 .defaults = {{"sequence_len", "--seq", "512"},
                                              {"micro_batch_size", "--micro-batch", "1"},
                                              {"bf16", "--precision", "bf16"},
                                              {"trl.use_vllm", "--rollout", "", axolotl::default_engine},
                                              {"deepspeed", "--framework", "torch"}},
                                 .rows = axolotl::axolotl_rows(),
                                 .telling = {"base_model"},
                                 .commands = axolotl::commands(),
                                 .trains_nothing = {},
                                 .trains = "a config that axolotl train takes",
                                 .launch = "axolotl train {file}"};
  return table;
}

}  // namespace zplan
