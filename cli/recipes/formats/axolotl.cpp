// axolotl's config. Source: axolotl 0.19 utils/schemas/*.py, integrations/*/args.py.

#include <fmt/format.h>

#include "cli/base/values.h"
#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"

namespace zplan {

namespace {

/// fsdp_config stands there or `fsdp` lists something.
RecipeOptions sharded(const RecipePlace& place) {
  const bool listed = place.value.kind == RecipeKind::list && !place.value.items.empty();
  const bool section = place.value.kind == RecipeKind::map && !place.value.entries.empty();
  if (!listed && !section) return {};
  if (place.text.root.find_path("fsdp_config.reshard_after_forward") != nullptr)
    return {{"--framework", "fsdp"}};
  return {{"--framework", "fsdp"}, {"--zero", "3"}};
}

RecipeOptions linear(const RecipePlace& place) {
  return place.boolean().value_or(false) ? RecipeOptions{{"--lora-targets", "all-linear"}} : RecipeOptions{};
}

/// Kernels of Liger's that each have a switch: the layers' are one option here.
RecipeOptions liger_layers(const RecipePlace& place) {
  const bool rest =
      place.is_on("liger_rms_norm") && (place.is_on("liger_glu_activation") || place.is_on("liger_swiglu"));
  if (!place.boolean().value_or(false) || !rest) return {};
  return {{"--kernels", "liger"}};
}

/// `gptq` says of the base that GPTQ packed it; without a name that says so, into 4 bits.
/// Source: axolotl 0.19 utils/schemas/peft.py LoraConfig.gptq.
RecipeOptions packed_by_gptq(const RecipePlace& place) {
  const RecipeOptions on = as_word(place);
  const std::string name = place.other("base_model");
  return on.empty() || unpacked_name(name) == name ? on : RecipeOptions{};
}

/// Weights that peft.backend packs as the model is loaded. Source: axolotl 0.19 utils/schemas/peft.py
/// auto_detect_qlora.
RecipeOptions packed_by_backend(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const std::string backend = place.other("peft.backend"), type = lower_case(place.scalar());
  if (backend == "torchao" && type == "int8")
    return {{"--method", "qlora"}, {"--quantization", "torchao-int8"}};
  if (backend == "torchao")
    place.fail(fmt::format("{} with peft.backend torchao", in_quotes(type)), "accepted: int8");
  return as_word(place);
}

/// Mxfp4Config, FineGrainedFP8Config. Source: axolotl 0.19 utils/schemas/model.py.
RecipeOptions refused_packing(const RecipePlace& place) {
  if (place.value.kind != RecipeKind::nothing) place.fail(in_quotes(place.scalar()), "accepted: without it");
  return {};
}

RecipeOptions evaluation_batch(const RecipePlace& place) {
  const std::string share = place.other("val_set_size");
  const bool evaluates = !share.empty() && share.find_first_not_of("0.") != std::string::npos;
  return evaluates || place.text.root.find("test_datasets") != nullptr ? as_text(place) : RecipeOptions{};
}

}  // namespace

const RecipeTable& axolotl_table() {
  static const RecipeTable table{
      .format = RecipeFormat::axolotl,
      .title = "axolotl",
      .trainers = "axolotl",
      .defaults = {{"sequence_len", "--seq", "512"},
                   {"micro_batch_size", "--micro-batch", "1"},
                   {"bf16", "--precision", "bf16"},
                   {"deepspeed", "--framework", "torch"}},
      .rows =
          {
              {"base_model", "--model", as_model},
              {"adapter",
               "--method",
               as_word,
               {{"lora", "lora"},
                {"qlora", "--method qlora --quantization nf4-double --quant-storage bf16"}}},
              {"load_in_8bit", "", as_word, {{"true", "--method qlora --quantization int8"}, {"false", ""}}},
              {"load_in_4bit",
               "",
               as_word,
               {{"true", "--method qlora --quantization nf4-double --quant-storage bf16"}, {"false", ""}}},
              {"gptq",
               "",
               packed_by_gptq,
               {{"true", "--method qlora --quantization gptq-int4"}, {"false", ""}}},
              {"peft.backend", "", as_word, {{"bnb", ""}, {"torchao", ""}}},
              {"peft.weight_dtype",
               "",
               packed_by_backend,
               {{"nf4", "--method qlora --quantization nf4-double --quant-storage bf16"},
                {"int8", "--method qlora --quantization int8"}}},
              {"model_quantization_config", "", refused_packing},
              {"base_model", "--quantization", as_packed_model},
              {"lora_r", "--lora-rank", as_text},
              {"lora_dropout", "--lora-dropout", as_text},
              {"lora_target_modules", "--lora-targets", as_targets},
              {"lora_target_linear", "--lora-targets", linear},
              {"lora_modules_to_save", "--modules-to-save", as_list},
              {"peft_use_dora", "--dora", as_flag},
              {"peft_ensure_weight_tying", "--tie-saved-modules", as_flag},
              {"peft_autocast_adapter_dtype",
               "",
               as_word,
               {{"true", ""}, {"false", "--no-autocast-adapters"}}},
              {"rl",
               "--objective",
               as_word,
               {{"dpo", "dpo"}, {"ipo", "dpo"}, {"orpo", "orpo"}, {"kto", "kto"}, {"simpo", "simpo"}}},
              {"reward_model", "--objective", as_word, {{"true", "reward"}, {"false", ""}}},
              {"precompute_ref_log_probs", "--reference", as_word, {{"true", "precomputed"}, {"false", ""}}},
              {"sequence_len", "--seq", as_text},
              {"micro_batch_size", "--micro-batch", as_text},
              {"gradient_accumulation_steps", "--grad-accum", as_text},
              {"optimizer", "--optimizer", as_optimizer},
              {"bf16",
               "--precision",
               as_word,
               {{"true", "bf16"}, {"auto", "bf16"}, {"full", "bf16"}, {"false", ""}}},
              {"fp16", "--precision", as_word, {{"true", "fp16"}, {"false", ""}}},
              {"gradient_checkpointing",
               "--checkpointing",
               as_word,
               {{"true", "full"},
                {"false", "none"},
                {"offload", "--checkpointing full --checkpoint-offload alst"}}},
              {"attn_implementation",
               "--attention",
               as_word,
               {{"eager", "eager"},
                {"sdpa", "sdpa"},
                {"flash_attention_2", "flash"},
                {"flash_attention_3", "flash"},
                {"flash_attention_4", "flash"},
                {"flash_attention_torch", "flash"},
                {"flex_attention", "flash"},
                {"xformers", "flash"},
                {"kernels-community/flash-attn2", "flash"},
                {"kernels-community/flash-attn3", "flash"},
                {"kernels-community/vllm-flash-attn3", "flash"}}},
              {"flash_attention", "--attention", as_word, {{"true", "flash"}, {"false", ""}}},
              {"sdp_attention", "--attention", as_word, {{"true", "sdpa"}, {"false", ""}}},
              {"eager_attention", "--attention", as_word, {{"true", "eager"}, {"false", ""}}},
              {"deepspeed", "--ds-config", as_ds_config},
              {"fsdp", "", sharded},
              {"fsdp_config", "", sharded},
              {"fsdp_config.reshard_after_forward", "--zero", as_word, {{"true", "3"}, {"false", "2"}}},
              {"fsdp_config.offload_params", "--offload", as_word, {{"true", "all"}, {"false", ""}}},
              {"fsdp_config.fsdp_offload_params", "--offload", as_word, {{"true", "all"}, {"false", ""}}},
              {"fsdp_config.activation_checkpointing",
               "--checkpointing",
               as_word,
               {{"true", "full"}, {"false", ""}}},
              {"fsdp_config.state_dict_type",
               "--save",
               as_word,
               {{"FULL_STATE_DICT", "full"}, {"SHARDED_STATE_DICT", "sharded"}}},
              {"context_parallel_size", "--cp", as_text},
              {"tensor_parallel_size", "--tp", as_text},
              {"liger_fused_linear_cross_entropy", "--fused-loss", as_flag},
              {"liger_rms_norm", "", as_word, {{"true", ""}, {"false", ""}}},
              {"liger_glu_activation", "", as_word, {{"true", ""}, {"false", ""}}},
              {"liger_rope", "", liger_layers},
              {"cut_cross_entropy", "--fused-loss", as_flag},
              {"chunked_cross_entropy", "", as_word, {{"true", "--loss-chunks 8"}, {"false", ""}}},
              {"num_epochs", "--epochs", as_text},
              {"eval_batch_size", "--eval-batch", evaluation_batch},
              {"tiled_mlp", "", as_word, {{"true", "--tiled-mlp auto"}, {"false", ""}}},
              {"batch_size", "", nullptr, {}, "the total batch: give --global-batch"},
              {"unfrozen_parameters", "", nullptr, {}, "which weights train"},
              {"lora_mlp_kernel", "", nullptr, {}, "fused kernels of adapters keep less"},
              {"lora_qkv_kernel", "", nullptr, {}, "fused kernels of adapters keep less"},
              {"lora_o_kernel", "", nullptr, {}, "fused kernels of adapters keep less"},
              {"activation_offloading", "", nullptr, {}, "saved activations wait in host memory"},
              {"layer_offloading", "", nullptr, {}, "frozen layers wait in host memory"},
              {"relora", "", nullptr, {}, "ReLoRA merges adapters on the way"},
              {"torch_compile", "", nullptr, {}, "what torch.compile fuses"},
              {"expert_parallel_size", "", nullptr, {}, "axolotl's expert parallelism"},
              {"qat", "", nullptr, {}, "quantization-aware training"},
              {"fp8", "", nullptr, {}, "products in 8 bits"},
              {"group_by_length",
               "",
               nullptr,
               {},
               "samples of like lengths: --lengths with --batching grouped"},
              {"xformers_attention", "", nullptr, {}, "xFormers' attention: --attention flash keeps as much"},
              {"flex_attention", "", nullptr, {}, "FlexAttention: --attention flash keeps as much"},
          },
      .telling = {"base_model"}};
  return table;
}

}  // namespace zplan
