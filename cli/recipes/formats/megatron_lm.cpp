// Megatron-LM's own script: torchrun … pretrain_gpt.py with arguments.
// Source: Megatron-Core 0.19.2 training/arguments.py, core/tokenizers/utils/build_tokenizer.py.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/base/values.h"
#include "cli/recipes/formats/megatron.h"
#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"

namespace zplan {

namespace megatron_lm {

namespace {

using nlohmann::json;

// ---- the model, which is given by its sizes

constexpr std::string_view kModelInstead = "accepted: --model beside --recipe, which names such a model";

std::int64_t size_of(const RecipePlace& place, std::string_view key, std::int64_t otherwise) {
  constexpr std::int64_t kLargest = 1 << 24;
  const RecipeValue* value = place.text.root.find(key);
  if (value == nullptr || value->text.empty()) return otherwise;
  if (!value->open.empty())
    throw InputError(fmt::format("{}:{}: {}", source_of(place.text, *value), value->line, key),
                     fmt::format("the script does not set {}", value->open), std::string(kModelInstead));
  return parse_integer(fmt::format("{}:{}: {}", source_of(place.text, *value), value->line, key), value->text,
                       1, kLargest);
}

/// Returns a size that the script's own parser requires.
std::int64_t needed_size(const RecipePlace& place, std::string_view key) {
  const std::int64_t size = size_of(place, key, 0);
  if (size == 0) place.fail(fmt::format("the script does not say {}", key), std::string(kModelInstead));
  return size;
}

bool has(const RecipePlace& place, std::string_view key) { return place.text.root.find(key) != nullptr; }

/// A script that names no tokenizer has GPT-2's.
std::int64_t vocabulary(const RecipePlace& place) {
  constexpr std::int64_t kGpt2 = 50257;
  const std::string tokenizer = place.other("tokenizer_type");
  if (const std::int64_t padded = size_of(place, "padded_vocab_size", 0); padded > 0) return padded;
  if (tokenizer == "HuggingFaceTokenizer")
    if (const auto known = known_vocabulary(place.other("tokenizer_model"))) {
      place.not_planned(
          "the tokenizer may have fewer tokens than the vocabulary of its model, which is planned");
      return *known;
    }
  if (const std::int64_t said = size_of(place, "vocab_size", 0); said > 0) return said;
  if (tokenizer == "GPT2BPETokenizer" || (tokenizer.empty() && has(place, "merge_file"))) return kGpt2;
  place.fail(fmt::format("the tokenizer's vocabulary is not known ({})",
                         tokenizer.empty() ? "no --tokenizer-type" : in_quotes(tokenizer)),
             "accepted: with --vocab-size; --model beside --recipe");
}

std::int64_t feed_forward(const RecipePlace& place, std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 64;
  const std::int64_t otherwise =
      has(place, "swiglu") ? 4 * hidden * 2 / 3 / kMultiple * kMultiple : 4 * hidden;
  return size_of(place, "ffn_hidden_size", otherwise);
}

constexpr double kDropout = 0.1;  // Megatron's own

bool is_zero(const std::string& number) {
  return !number.empty() && number.find_first_not_of("0.") == std::string::npos;
}

/// config.json of GPT-2's layers: learned positions, LayerNorm, GELU and biases.
json gpt2(const RecipePlace& place) {
  const std::int64_t hidden = needed_size(place, "hidden_size");
  const std::string dropout = place.other("hidden_dropout");
  json config{{"model_type", "gpt2"},
              {"n_embd", hidden},
              {"n_inner", feed_forward(place, hidden)},
              {"n_head", needed_size(place, "num_attention_heads")},
              {"n_layer", needed_size(place, "num_layers")},
              {"n_positions", needed_size(place, "max_position_embeddings")},
              {"vocab_size", vocabulary(place)},
              {"tie_word_embeddings", !has(place, "untie_embeddings_and_output_weights")}};
  if (is_zero(dropout)) config["resid_pdrop"] = config["embd_pdrop"] = 0.0;
  return config;
}

/// config.json of layers with rotary positions and gated feed-forwards: Llama's, Qwen2's, Qwen3's or, with
/// LayerNorm, StableLM's.
json llama(const RecipePlace& place) {
  const std::int64_t hidden = needed_size(place, "hidden_size");
  const std::int64_t heads = needed_size(place, "num_attention_heads");
  json config{{"model_type", "llama"},
              {"hidden_size", hidden},
              {"intermediate_size", feed_forward(place, hidden)},
              {"num_attention_heads", heads},
              {"num_key_value_heads",
               has(place, "group_query_attention") ? size_of(place, "num_query_groups", 1) : heads},
              {"head_dim", size_of(place, "kv_channels", std::max<std::int64_t>(1, hidden / heads))},
              {"num_hidden_layers", needed_size(place, "num_layers")},
              {"max_position_embeddings", needed_size(place, "max_position_embeddings")},
              {"rms_norm_eps", 1e-6},
              {"vocab_size", vocabulary(place)},
              {"tie_word_embeddings", !has(place, "untie_embeddings_and_output_weights")}};
  if (has(place, "add_qkv_bias")) config["model_type"] = "qwen2";
  if (has(place, "qk_layernorm")) config["model_type"] = "qwen3";
  return config;
}

/// config.json of Llama's layers with LayerNorm: StableLM's, all of whose positions rotate.
json stablelm(const RecipePlace& place) {
  json config = llama(place);
  config["model_type"] = "stablelm";
  config["partial_rotary_factor"] = 1.0;
  config["use_qkv_bias"] = has(place, "add_qkv_bias");
  config["hidden_dropout"] = is_zero(place.other("hidden_dropout")) ? 0.0 : kDropout;
  config.erase("head_dim");
  return config;
}

bool has_layer_norm(const RecipePlace& place) {
  const std::string norm = place.other("normalization");
  return norm.empty() || norm == "LayerNorm";
}

/// True if layers have rotary positions, gated feed-forwards and no biases.
bool is_gated(const RecipePlace& place) {
  const bool is_rotary =
      place.other("position_embedding_type") == "rope" || has(place, "use_rotary_position_embeddings");
  return is_rotary && has(place, "swiglu") && has(place, "disable_bias_linear");
}

bool is_llama(const RecipePlace& place) {
  return is_gated(place) && place.other("normalization") == "RMSNorm" &&
         is_zero(place.other("hidden_dropout")) &&
         !(has(place, "add_qkv_bias") && has(place, "qk_layernorm"));
}

bool is_stablelm(const RecipePlace& place) {
  const std::int64_t hidden = needed_size(place, "hidden_size");
  const std::int64_t heads = needed_size(place, "num_attention_heads");
  const bool has_usual_heads = size_of(place, "kv_channels", hidden / heads) * heads == hidden;
  return is_gated(place) && has_layer_norm(place) && has_usual_heads && !has(place, "qk_layernorm");
}

bool is_gpt2(const RecipePlace& place) {
  const std::string positions = place.other("position_embedding_type");
  const bool is_learned =
      (positions.empty() || positions == "learned_absolute") && !has(place, "use_rotary_position_embeddings");
  const bool is_plain = !has(place, "swiglu") && !has(place, "squared_relu") && !has(place, "quick_geglu") &&
                        !has(place, "group_query_attention") && !has(place, "qk_layernorm") &&
                        !has(place, "kv_channels") && !has(place, "disable_bias_linear");
  return is_learned && is_plain && has_layer_norm(place);
}

std::optional<json> config_of(const RecipePlace& place) {
  if (is_llama(place)) return llama(place);
  if (is_stablelm(place)) return stablelm(place);
  if (is_gpt2(place)) return gpt2(place);
  return std::nullopt;
}

/// Makes the config of a model that has these sizes.
RecipeOptions sized_model(const RecipePlace& place) {
  for (const std::string_view key : {"num_experts", "multi_latent_attention", "hybrid_layer_pattern"})
    if (has(place, key))
      place.fail(fmt::format("a model with {} is not read from its sizes", key), std::string(kModelInstead));
  const auto config = config_of(place);
  if (!config && is_gated(place) && !is_zero(place.other("hidden_dropout")))
    place.fail("gated layers with Megatron-Core's dropout are not planned",
               "accepted: --hidden-dropout 0, or --model beside --recipe");
  if (!config)
    place.fail("layers other than Llama's, StableLM's and GPT-2's are not read from their sizes",
               std::string(kModelInstead));
  place.recipe.model_config = config->dump();
  return {{"--model",
           fmt::format("GPT-{}x{}", needed_size(place, "num_layers"), needed_size(place, "hidden_size"))}};
}

RecipeOptions said_by_sizes(const RecipePlace&) { return {}; }

/// Keys that sized_model reads.
std::vector<RecipeRow> model_rows() {
  std::vector<RecipeRow> rows{{"num_layers", "--model", sized_model}};
  for (const std::string_view key : {"hidden_size",
                                     "ffn_hidden_size",
                                     "num_attention_heads",
                                     "group_query_attention",
                                     "num_query_groups",
                                     "kv_channels",
                                     "max_position_embeddings",
                                     "position_embedding_type",
                                     "use_rotary_position_embeddings",
                                     "normalization",
                                     "swiglu",
                                     "disable_bias_linear",
                                     "add_qkv_bias",
                                     "qk_layernorm",
                                     "hidden_dropout",
                                     "untie_embeddings_and_output_weights",
                                     "vocab_size",
                                     "padded_vocab_size",
                                     "tokenizer_type",
                                     "tokenizer_model"})
    rows.push_back({key, "--model", said_by_sizes});
  for (const std::string_view key : {"window_size", "spec", "yaml_cfg", "use_legacy_models"})
    rows.push_back({key, "--model", only_planned, {{"none", ""}, {"false", ""}}});
  return rows;
}

// ---- training

/// A type is a switch.
RecipeOptions precision(const RecipePlace& place) {
  if (!place.boolean().value_or(false)) return {};
  if (place.row.key == "fp16" && place.is_on("bf16"))
    place.fail("with --bf16, which Megatron-Core refuses", "accepted: one of the two");
  return {{"--precision", std::string(place.row.key)}};
}

RecipeOptions selective_recompute(const RecipePlace& place) {
  return place.boolean().value_or(false) ? RecipeOptions{{"--checkpointing", "selective"}} : RecipeOptions{};
}

/// Source: Megatron-Core 0.19.2 training/arguments.py validate_args, before Blackwell.
RecipeOptions connections(const RecipePlace& place) {
  const bool divides =
      size_of(place, "tensor_model_parallel_size", 1) > 1 || size_of(place, "context_parallel_size", 1) > 1;
  if (divides && place.scalar() != "1")
    place.not_planned(
        "before Blackwell, Megatron-Core refuses tensor and context parallelism unless it is 1");
  return {};
}

/// Returns --vpp of a number of layers in each chunk.
RecipeOptions virtual_stages(const RecipePlace& place) {
  const std::int64_t in_chunk = needed_size(place, place.row.key);
  const std::int64_t in_stages = in_chunk * size_of(place, "pipeline_model_parallel_size", 1);
  const std::int64_t layers = needed_size(place, "num_layers");
  if (layers % in_stages != 0)
    place.fail(fmt::format("{} of {} layers, which Megatron-Core refuses", in_chunk, layers),
               "accepted: layers that divide those of a pipeline stage");
  return {{"--vpp", std::to_string(layers / in_stages)}};
}

std::vector<RecipeRow> training_rows() {
  return {{"PYTORCH_CUDA_ALLOC_CONF", "", as_allocator},
          {"PYTORCH_ALLOC_CONF", "", as_allocator},
          {"CUDA_DEVICE_MAX_CONNECTIONS", "", connections},
          {"seq_length", "--seq", as_text},
          {"micro_batch_size", "--micro-batch", as_text},
          {"global_batch_size", "--global-batch", global_batch},
          {"rampup_batch_size", "", nullptr, {}, "smaller batches at first: the last one is planned"},
          {"tensor_model_parallel_size", "--tp", as_text},
          {"pipeline_model_parallel_size", "--pp", as_text},
          {"num_virtual_stages_per_pipeline_rank", "--vpp", as_text},
          {"num_layers_per_virtual_pipeline_stage", "--vpp", virtual_stages},
          {"pipeline_model_parallel_layout", "--vpp", only_planned, {{"none", ""}}},
          {"context_parallel_size", "--cp", as_text},
          {"expert_model_parallel_size", "--ep", as_text},
          {"expert_tensor_parallel_size", "--etp", as_text},
          {"use_distributed_optimizer", "--zero", distributed_optimizer},
          {"recompute_activations", "--checkpointing", selective_recompute},
          {"recompute_granularity",
           "--checkpointing",
           recompute_granularity,
           {{"selective", "selective"}, {"full", "full"}}},
          {"cross_entropy_fusion_impl", "", loss_kernel, {{"native", ""}, {"te", ""}}},
          {"attention_backend", "--megatron", attention_backend},
          {"bf16", "--precision", precision},
          {"fp16", "--precision", precision},
          {"no_bias_dropout_fusion",
           "",
           nullptr,
           {},
           "dropout and addition in two kernels: one kernel is planned"},
          {"moe_expert_capacity_factor",
           "",
           nullptr,
           {},
           "tokens that an expert's capacity drops: all of them are planned"}};
}

/// Experts' tensors are divided among as many ranks as others.
RecipeOptions expert_tensor_parallel(const RecipePlace& place) {
  const bool has_experts = size_of(place, "num_experts", 0) > 0;
  const std::int64_t ranks = has_experts ? size_of(place, "tensor_model_parallel_size", 1) : 1;
  return {{"--etp", std::to_string(ranks)}};
}

/// Returns one micro-batch a step, Megatron's default, unless the script gives a global batch. Source:
/// Megatron-Core 0.19.2 training/arguments.py validate_args.
RecipeOptions one_micro_batch(const RecipePlace& place) {
  return has(place, "global_batch_size") ? RecipeOptions{} : RecipeOptions{{"--grad-accum", "1"}};
}

std::vector<RecipeDefault> defaults() {
  std::vector<RecipeDefault> all{{"tensor_model_parallel_size", "--framework", "megatron"},
                                 {"bf16", "--precision", "fp32"},
                                 {"global_batch_size", "", "", one_micro_batch},
                                 {"tensor_model_parallel_size", "--tp", "1"},
                                 {"pipeline_model_parallel_size", "--pp", "1"},
                                 {"num_virtual_stages_per_pipeline_rank", "--vpp", "1"},
                                 {"context_parallel_size", "--cp", "1"},
                                 {"expert_model_parallel_size", "--ep", "1"},
                                 {"expert_tensor_parallel_size", "--etp", "", expert_tensor_parallel},
                                 {"use_distributed_optimizer", "--zero", "0"}};
  for (const RecipeDefault& each : megatron_argument_defaults("megatron-lm", MegatronSpelling::switches))
    all.push_back(each);
  return all;
}

}  // namespace

}  // namespace megatron_lm

const RecipeTable& megatron_lm_table() {
  static const RecipeTable table{
      .format = RecipeFormat::megatron_lm,
      .title = "Megatron-LM",
      .trainers = "megatron-lm",
      .defaults = megatron_lm::defaults(),
      .rows = with_megatron_rows({megatron_lm::model_rows(), megatron_lm::training_rows()},
                                 MegatronSpelling::switches),
      .telling = {},
      .commands = {{.words = "pretrain_gpt.py", .config = "--yaml-cfg"},
                   {.words = "pretrain_bert.py", .not_planned = "BERT's pretraining under Megatron-Core"},
                   {.words = "pretrain_t5.py", .not_planned = "T5's pretraining under Megatron-Core"},
                   {.words = "pretrain_mamba.py", .not_planned = "Mamba under Megatron-Core"},
                   {.words = "pretrain_vlm.py", .not_planned = "image-text models under Megatron-Core"}},
      .trains = "a command that trains a GPT model (pretrain_gpt.py)"};
  return table;
}

}  // namespace zplan
