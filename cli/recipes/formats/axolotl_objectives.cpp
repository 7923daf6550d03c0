// axolotl's preferences, rewards and GRPO, and keys that no plan knows. Source: axolotl 0.19
// utils/schemas/{config,trl,vllm,training,peft}.py, core/builders/rl.py, core/trainers/grpo/__init__.py.

#include <fmt/format.h>

#include "cli/base/values.h"
#include "cli/recipes/formats/axolotl.h"

namespace zplan::axolotl {

namespace {

// ---- Objectives.

bool is_strided(const RecipePlace& place) { return place.other("ebft.mode") == "strided"; }

/// Energy-based fine-tuning is GRPO whose rewards are features of a frozen network: the model without its
/// adapters, or a copy. Its strided mode generates blocks within documents. Source: axolotl 0.19
/// core/trainers/ebft/trainer.py, strided.py.
RecipeOptions energy_based(const RecipePlace& place) {
  if (is_strided(place)) {
    place.not_planned(
        "strided energy-based fine-tuning is planned as next tokens of each document: that a micro-batch has "
        "n_samples_per_prompt copies of it, each with the blocks generated, is not");
    return {};
  }
  place.not_planned(
      "energy-based fine-tuning is planned as GRPO with a reference: hidden states of its feature network "
      "are "
      "not counted");
  return {{"--objective", "grpo"}, {"--reference", place.other("adapter").empty() ? "copy" : "adapters-off"}};
}

RecipeOptions objective(const RecipePlace& place) {
  const std::string name = lower_case(place.scalar());
  if (name == "ebft") return energy_based(place);
  if (name == "gdpo") place.not_planned("GDPO is planned as GRPO");
  return as_word(place);
}

RecipeOptions process_reward(const RecipePlace& place) {
  if (place.boolean().value_or(false))
    place.not_planned(
        "a head of two labels for each token is planned as one of next tokens, which takes more");
  return {};
}

bool is_grpo(const RecipePlace& place) {
  const std::string name = place.other("rl");
  return name == "grpo" || name == "gdpo" || (name == "ebft" && !is_strided(place));
}

/// Reads sequence_len as prompt and completion together: axolotl cuts no prompts.
RecipeOptions completions(const RecipePlace& place) {
  if (!is_grpo(place) || place.scalar().empty()) return {};
  constexpr std::int64_t kPrompt = 512;
  const std::int64_t completion = number_of(place, "trl.max_completion_length", 256);
  const std::int64_t whole = number_of(place, "sequence_len", 512);
  RecipeOptions options{{"--completion-length", place.scalar()}};
  if (whole <= completion) options.emplace_back("--seq", std::to_string(completion + kPrompt));
  return options;
}

RecipeOptions if_grpo(const RecipePlace& place) { return is_grpo(place) ? as_text(place) : RecipeOptions{}; }

RecipeOptions grpo_engine(const RecipePlace& place) {
  if (!is_grpo(place)) return {};
  const std::string mode = place.other("trl.vllm_mode");
  return {{"--rollout", !place.boolean().value_or(false) ? "trainer" : mode.empty() ? "server" : mode}};
}

}  // namespace

/// TRL's own generation, where no key says vLLM.
RecipeOptions default_engine(const RecipePlace& place) {
  return is_grpo(place) ? RecipeOptions{{"--rollout", "trainer"}} : RecipeOptions{};
}

namespace {

RecipeOptions if_colocated_engine(const RecipePlace& place) {
  return is_grpo(place) && place.other("trl.vllm_mode") == "colocate" ? as_text(place) : RecipeOptions{};
}

RecipeOptions grpo_beta(const RecipePlace& place) {
  if (!is_grpo(place) || place.scalar().find_first_not_of("0.") == std::string::npos) return {};
  return {{"--reference", place.other("adapter").empty() ? "copy" : "adapters-off"}};
}

}  // namespace

std::vector<RecipeRow> objective_rows() {
  return {
      {"rl",
       "--objective",
       objective,
       {{"dpo", "dpo"},
        {"ipo", "dpo"},
        {"orpo", "orpo"},
        {"kto", "kto"},
        {"simpo", "simpo"},
        {"grpo", "grpo"},
        {"gdpo", "grpo"},
        {"ebft", "grpo"}}},
      {"reward_model", "--objective", as_word, {{"true", "reward"}, {"false", ""}}},
      {"process_reward_model", "", process_reward},
      {"precompute_ref_log_probs", "--reference", as_word, {{"true", "precomputed"}, {"false", ""}}},
      {"trl.num_generations", "--generations", if_grpo},
      {"trl.max_completion_length", "--completion-length", completions},
      {"trl.use_vllm", "--rollout", grpo_engine},
      {"trl.vllm_mode", "", as_word, {{"server", ""}, {"colocate", ""}}},
      {"trl.beta", "--reference", grpo_beta},
      {"trl.num_iterations", "--iterations", if_grpo},
      {"vllm.gpu_memory_utilization", "--vllm-memory", if_colocated_engine},
      {"vllm.tensor_parallel_size", "--vllm-tp", if_colocated_engine},
      {"trl.generation_batch_size", "", nullptr, {}, "completions generated at once"},
      {"trl.use_liger_loss", "", nullptr, {}, "Liger's loss of GRPO, without logits"},
      {"trl.async_prefetch", "", nullptr, {}, "completions generated beside the steps"},
      {"trl.sync_ref_model", "", nullptr, {}, "a reference model that follows the trained one"},
  };
}

std::vector<RecipeRow> rows_not_planned() {
  constexpr std::string_view kAdapterKernels = "fused kernels of adapters keep less";
  constexpr std::string_view kKernels = "kernels of its own for layers or experts";
  constexpr std::string_view kConfig = "the model is planned by its published configuration";
  constexpr std::string_view kLisa = "which layers train: all are planned";
  constexpr std::string_view kDistilled = "knowledge distillation is not counted";
  constexpr std::string_view kAdapters = "adapters are planned alike in all layers";
  constexpr std::string_view kEvaluated = "text generated in evaluations";
  std::vector<RecipeRow> rows;
  const auto add = [&](std::string_view why, std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) rows.push_back({key, "", nullptr, {}, why});
  };
  add(kAdapterKernels, {"lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel"});
  add(kKernels, {"use_kernels", "use_scattermoe", "use_sonicmoe", "use_dsv4_kernels", "use_glm_dsa_kernels",
                 "expert_backend", "nonexpert_quantization", "moe_grouped_backend", "moe_bnb_fast",
                 "fused_attn_kernel", "gemma4_fp8_nonexpert", "gemma4_nf4_nonexpert", "nvfp4_merge_aware",
                 "dsv4_fp4_grouped_mode", "use_onebitllms", "flash_attn_fuse_mlp"});
  add(kConfig, {"overrides_of_model_config", "model_config", "overrides_of_model_kwargs", "model_kwargs",
                "llama4_linearized_experts"});
  add(kLisa, {"unfrozen_parameters", "lisa_step_interval", "spectrum_top_fraction"});
  add(kDistilled, {"kd_trainer", "kd_online_server_base_url"});
  add(kAdapters, {"lora_rank_pattern", "peft_layers_to_transform", "peft_layers_pattern",
                  "peft_layer_replication", "peft_trainable_token_indices", "lora_model_dir"});
  add(kEvaluated, {"do_causal_lm_eval", "eval_table_size", "generate_samples"});
  add("adapters on expert parameters are not counted", {"lora_target_parameters"});
  add("experts packed into 4 or 8 bits are planned in 16", {"quantize_moe_experts"});
  add("frozen layers wait in host memory", {"layer_offloading", "ple_cpu_offload"});
  add("ReLoRA merges adapters on the way", {"relora"});
  add("what torch.compile fuses", {"torch_compile", "deepcompile"});
  add("axolotl's expert parallelism", {"expert_parallel_size"});
  add("quantization-aware training", {"qat"});
  add("products in 8 bits", {"fp8"});
  add("norms stay in fp32", {"fp32_norms"});
  add("samples of like lengths: --lengths with --batching grouped", {"group_by_length"});
  add("batches without padding", {"batch_flattening", "dpo_padding_free"});
  add("Liger's loss of DPO, without logits", {"dpo_use_liger_kernel"});
  add("noise on the embeddings, a copy of their output", {"neftune_noise_alpha", "noisy_embedding_alpha"});
  add("the batch size is tried out", {"auto_find_batch_size"});
  add("layers are placed by what memory is left", {"max_memory", "gpu_memory_limit"});
  add("attention of some layers in another kernel",
      {"gemma4_hybrid_attn_impl", "large_head_attention", "flash_attn_d512", "sdpa_varlen"});
  add("a loss that keeps the logits' probabilities", {"use_eaft", "liger_cross_entropy"});
  add("longer samples in evaluations", {"eval_sequence_len"});
  add("Liger's gated norms are planned as PyTorch's, which take more", {"liger_rms_norm_gated"});
  return rows;
}

}  // namespace zplan::axolotl
