// ms-swift's arguments of megatron sft and pt: YAML or JSON of them, or a command line.
// Source: ms-swift 4.6 swift/megatron/arguments/*.py, swift/cli/_megatron/main.py; mcore-bridge 1.6.5
// config/model_config.py.

#include <fmt/format.h>

#include <algorithm>

#include "cli/base/values.h"
#include "cli/recipes/formats/megatron.h"
#include "cli/recipes/formats/swift.h"
#include "models/base/format.h"

namespace zplan {

namespace swift_megatron {

namespace {

using namespace swift;

bool has_adapters(const RecipePlace& place) { return !trains_all_weights(place); }

/// Tower and projector train whole beside adapters of the language model. Source: ms-swift 4.6
/// swift/megatron/utils/utils.py _prepare_full_vit.
RecipeOptions lora_beside_tower(const RecipePlace& place) {
  RecipeOptions options{{"--method", "lora"}};
  if (image_text_parts(model_of(place)).has_tower)
    options.emplace_back("--train-tower", std::string(kFlagGiven));
  return options;
}

RecipeOptions tuner(const RecipePlace& place) {
  const std::string name = tuner_of(place);
  if (name == "lora_llm") return lora_beside_tower(place);
  if (name != "full" && name != "lora") place.fail(in_quotes(name), "accepted: full, lora, lora_llm");
  return {{"--method", name}};
}

RecipeOptions adapters(const RecipePlace& place) {
  return is_off(place.value) ? RecipeOptions{} : tuner(place);
}

/// Keys of adapters mean nothing where all weights train.
RecipeOptions of_adapters(const RecipePlace& place) {
  return has_adapters(place) ? as_text(place) : RecipeOptions{};
}
RecipeOptions saved_modules(const RecipePlace& place) {
  return has_adapters(place) ? as_list(place) : RecipeOptions{};
}

/// Adapters of routers and of embeddings have words of their own. Source: ms-swift 4.6
/// swift/megatron/utils/utils.py get_target_modules.
RecipeOptions targets(const RecipePlace& place) {
  if (!has_adapters(place)) return {};
  std::vector<std::string> said;
  if (place.value.kind == RecipeKind::list)
    for (const RecipeValue& each : place.value.items) said.push_back(each.text);
  else
    for (const std::string_view word : split(place.value.text, ' ')) said.emplace_back(word);
  for (const char* word : {"all-router", "all-embedding"})
    if (std::ranges::find(said, word) != said.end())
      place.fail(fmt::format("{}: adapters of it are not planned under Megatron-Core", in_quotes(word)),
                 "accepted: all-linear, linear_qkv, linear_proj, linear_fc1, linear_fc2");
  return as_targets(place);
}

/// Biases of the model itself would train.
RecipeOptions biases(const RecipePlace& place) {
  if (has_adapters(place) && place.scalar() == "all")
    place.not_planned("biases of the model train beside adapters: they are planned as frozen");
  return {};
}

RecipeOptions packed_length(const RecipePlace& place) {
  return place.is_on("packing") ? as_text(place) : RecipeOptions{};
}

/// True if samples of a micro-batch stand in one row. Source: megatron_base_args.py __post_init__,
/// model/utils.py _check_padding_free.
bool joins_samples(const RecipePlace& place) {
  const std::string said = place.other("padding_free");
  return place.is_on("packing") || said.empty() || place.is_on("padding_free");
}

constexpr std::string_view kJoined =
    "samples that stand in one row are planned as padded ones: what rotary positions keep of each sample is "
    "not "
    "planned";

RecipeOptions rows_without_padding(const RecipePlace& place) {
  if (place.boolean().value_or(false)) place.not_planned(std::string(kJoined));
  return as_word(place);
}

/// A key that is not in the file is named, too.
RecipeOptions joined_by_default(const RecipePlace& place) {
  if (joins_samples(place) && place.text.root.find("padding_free") == nullptr &&
      place.text.root.find("packing") == nullptr)
    place.recipe.not_planned.push_back({std::string(place.row.key), 0, std::string(kJoined)});
  return {};
}

/// Padded samples need a mask. Source: swift/template/base.py _data_collator.
RecipeOptions mask(const RecipePlace& place) {
  if (!joins_samples(place)) return {};
  return {{"--megatron", "no-create-attention-mask-in-dataloader"}};
}

/// Source: ms-swift 4.6 swift/megatron/arguments/rlhf_args.py calculate_per_token_loss.
RecipeOptions divided_by_tokens(const RecipePlace& place) {
  if (!preference_of(place).empty()) return {};
  return {{"--megatron", "calculate-per-token-loss"}};
}

/// Sums of gradients in bf16 are reduced in bf16. Source: megatron_args.py _map_dtype.
RecipeOptions gradient_type(const RecipePlace& place) {
  if (place.scalar() != "bf16") return as_word(place);
  RecipeOptions options = megatron_argument(place, "grad-reduce-in-bf16", {});
  for (const auto& each : megatron_argument(place, "main-grads-dtype", "bf16")) options.push_back(each);
  return options;
}

RecipeOptions router_type(const RecipePlace& place) {
  return lower_case(place.scalar()) == "none"
             ? RecipeOptions{}
             : megatron_argument(place, "moe-router-dtype", lower_case(place.scalar()));
}

/// Other tasks have a small head in place of the vocabulary's.
RecipeOptions task(const RecipePlace& place) {
  const std::string name = place.scalar();
  if (!name.empty() && name != "causal_lm")
    place.not_planned(fmt::format(
        "{} has no logits over the vocabulary: those of next tokens are planned, which are more", name));
  return {};
}

std::vector<RecipeRow> model_rows() {
  constexpr std::string_view kWhichTrain = "which weights train";
  return {{"model", "--model", as_model},
          {"tuner_type", "--method", tuner},
          {"train_type", "--method", tuner},
          {"adapters", "--method", adapters},
          {"mcore_adapter", "--method", adapters},
          {"torch_dtype",
           "--precision",
           as_word,
           {{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}},
          {"bf16", "--precision", as_word, {{"true", "bf16"}, {"false", ""}}},
          {"fp16", "--precision", as_word, {{"true", "fp16"}, {"false", ""}}},
          {"lora_rank", "--lora-rank", of_adapters},
          {"lora_dropout", "--lora-dropout", of_adapters},
          {"target_modules", "--lora-targets", targets},
          {"target_regex", "--lora-targets", targets},
          {"modules_to_save", "--modules-to-save", saved_modules},
          {"lora_bias", "", biases},
          {"task_type", "", task},
          {"freeze_parameters", "", nullptr, {}, kWhichTrain},
          {"freeze_parameters_regex", "", nullptr, {}, kWhichTrain},
          {"freeze_parameters_ratio", "", nullptr, {}, kWhichTrain},
          {"trainable_parameters", "", nullptr, {}, kWhichTrain},
          {"trainable_parameters_regex", "", nullptr, {}, kWhichTrain}};
}

std::vector<RecipeRow> training_rows() {
  const std::vector<std::pair<std::string_view, std::string_view>> either{{"true", ""}, {"false", ""}};
  return {
      {"NPROC_PER_NODE", "--gpus", as_processes},
      {"NNODES", "--nodes", as_nodes},
      {"PYTORCH_CUDA_ALLOC_CONF", "", as_allocator},
      {"PYTORCH_ALLOC_CONF", "", as_allocator},
      {"max_length", "--seq", sample_length},
      {"packing_length", "--seq", packed_length},
      {"micro_batch_size", "--micro-batch", as_text},
      {"global_batch_size", "--global-batch", global_batch},
      {"tensor_model_parallel_size", "--tp", as_text},
      {"pipeline_model_parallel_size", "--pp", as_text},
      {"virtual_pipeline_model_parallel_size", "--vpp", as_text},
      {"pipeline_model_parallel_layout", "--vpp", only_planned, {{"none", ""}}},
      {"context_parallel_size", "--cp", as_text},
      {"expert_model_parallel_size", "--ep", as_text},
      {"expert_tensor_parallel_size", "--etp", as_text},
      {"moe_router_dtype", "--megatron", router_type},
      {"use_distributed_optimizer", "--zero", distributed_optimizer},
      {"recompute_granularity",
       "--checkpointing",
       recompute_granularity,
       {{"none", "none"}, {"selective", "selective"}, {"full", "full"}}},
      {"cross_entropy_fusion_impl", "", loss_kernel, {{"native", ""}, {"te", ""}}},
      {"main_grads_dtype", "", gradient_type, {{"fp32", ""}}},
      {"attention_backend", "--megatron", attention_backend},
      {"packing", "", rows_without_padding, either},
      {"padding_free", "", rows_without_padding, either},
      {"group_by_length", "", as_word, either},
      {"mlp_padding_free", "", nullptr, {}, "feed-forward layers without padding: padded ones are planned"},
      {"sequence_packing_scheduler", "", nullptr, {}, "rows of other lengths for other ranks"},
      {"optimizer_cuda_graph",
       "",
       nullptr,
       {},
       "a CUDA graph of the optimizer's step, which has a pool of its own"},
      {"enable_dft_loss", "", nullptr, {}, "probabilities that weight the loss"},
      {"enable_channel_loss", "", nullptr, {}, "losses of each channel"},
      {"megatron_extra_kwargs", "", nullptr, {}, "arguments of Megatron-Core inside JSON"},
      {"moe_expert_capacity_factor",
       "",
       nullptr,
       {},
       "tokens that an expert's capacity drops: all of them are planned"},
  };
}

/// Source: ms-swift 4.6 swift/megatron/arguments/megatron_args.py global_batch_size.
RecipeOptions usual_global_batch(const RecipePlace& place) {
  constexpr std::int64_t kUsual = 16;
  return place.other("global_batch_size").empty() ? megatron_global_batch(place, kUsual) : RecipeOptions{};
}

std::vector<RecipeDefault> defaults() {
  std::vector<RecipeDefault> all{{"tensor_model_parallel_size", "--framework", "megatron"},
                                 {"tuner_type", "--method", "full"},
                                 {"torch_dtype", "--precision", "bf16"},
                                 {"micro_batch_size", "--micro-batch", "1"},
                                 {"global_batch_size", "", "", usual_global_batch},
                                 {"tensor_model_parallel_size", "--tp", "1"},
                                 {"pipeline_model_parallel_size", "--pp", "1"},
                                 {"virtual_pipeline_model_parallel_size", "--vpp", "1"},
                                 {"context_parallel_size", "--cp", "1"},
                                 {"expert_model_parallel_size", "--ep", "1"},
                                 {"expert_tensor_parallel_size", "--etp", "1"},
                                 {"use_distributed_optimizer", "--zero", "1"},
                                 {"rlhf_type", "--objective", "", default_preference},
                                 {"rlhf_type", "--completion-length", "", reinforcement},
                                 {"freeze_vit", "--freeze", "", frozen_parts},
                                 {"padding_free", "", "", joined_by_default}};
  for (RecipeDefault& each : megatron_argument_defaults("swift", MegatronSpelling::values)) {
    if (each.value == "no-create-attention-mask-in-dataloader") each.made = mask;
    if (each.value == "calculate-per-token-loss") each.made = divided_by_tokens;
    all.push_back(each);
  }
  return all;
}

std::string start(const RecipeText& text) {
  const RecipeValue* objective = text.root.find("rlhf_type");
  const bool is_rlhf = objective != nullptr && !is_off(*objective);
  return fmt::format("NPROC_PER_NODE={{gpus}} megatron {} {{file}}", is_rlhf ? "rlhf" : "sft");
}

}  // namespace

}  // namespace swift_megatron

const RecipeTable& swift_megatron_table() {
  static const RecipeTable table{
      .format = RecipeFormat::swift_megatron,
      .title = "ms-swift",
      .trainers = "swift",
      .defaults = swift_megatron::defaults(),
      .rows = with_megatron_rows({swift_megatron::model_rows(), swift::image_rows(), swift::objective_rows(),
                                  swift_megatron::training_rows()},
                                 MegatronSpelling::values),
      .telling = {"mcore_model", "mcore_adapter", "micro_batch_size", "global_batch_size",
                  "tensor_model_parallel_size", "recompute_granularity", "train_iters",
                  "cross_entropy_loss_fusion", "lr_warmup_fraction"},
      .commands = {{.words = "megatron sft", .config = "first"},
                   {.words = "megatron pt", .config = "first"},
                   {.words = "megatron rlhf", .config = "first"},
                   {.words = "megatron export", .does = "converts a model"}},
      .trains = "a command that trains (megatron pt, sft, rlhf)",
      .start = swift_megatron::start};
  return table;
}

}  // namespace zplan
