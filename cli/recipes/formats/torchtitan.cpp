// torchtitan's TOML configs, of the releases before 0.3, whose configs are Python.
// Source: torchtitan 0.1.0 config_manager.py; 0.2.0 to 0.2.2 config/job_config.py, train.py,
// models/*/__init__.py, distributed/pipeline_parallel.py, components/optimizer.py.

#include "planner/question/torchtitan.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "cli/base/values.h"
#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"

namespace zplan {

namespace titan_toml {

namespace {

using namespace std::string_view_literals;

/// Flavors of torchtitan's models, as "name flavor", and the models that they are.
constexpr std::array kFlavors{std::pair{"llama3 8B"sv, "meta-llama/Llama-3.1-8B"sv},
                              std::pair{"llama3 70B"sv, "meta-llama/Llama-3.1-70B"sv},
                              std::pair{"llama3 405B"sv, "meta-llama/Llama-3.1-405B"sv},
                              std::pair{"qwen3 0.6B"sv, "Qwen/Qwen3-0.6B"sv},
                              std::pair{"qwen3 1.7B"sv, "Qwen/Qwen3-1.7B"sv},
                              std::pair{"qwen3 4B"sv, "Qwen/Qwen3-4B"sv},
                              std::pair{"qwen3 8B"sv, "Qwen/Qwen3-8B"sv},
                              std::pair{"qwen3 14B"sv, "Qwen/Qwen3-14B"sv},
                              std::pair{"qwen3 32B"sv, "Qwen/Qwen3-32B"sv},
                              std::pair{"qwen3 30B-A3B"sv, "Qwen/Qwen3-30B-A3B"sv},
                              std::pair{"qwen3 235B-A22B"sv, "Qwen/Qwen3-235B-A22B"sv},
                              std::pair{"deepseek_v3 16B"sv, "deepseek-ai/DeepSeek-V2-Lite"sv},
                              std::pair{"deepseek_v3 236B"sv, "deepseek-ai/DeepSeek-V2"sv},
                              std::pair{"deepseek_v3 671B"sv, "deepseek-ai/DeepSeek-V3"sv},
                              std::pair{"llama4 17bx16e"sv, "meta-llama/Llama-4-Scout-17B-16E"sv},
                              std::pair{"llama4 17bx128e"sv, "meta-llama/Llama-4-Maverick-17B-128E"sv}};

/// Returns the flavor without the attention that its name ends with: "8B" of "8B_flex".
std::string without_attention(std::string flavor) {
  for (const std::string_view end : {"_flex_attn"sv, "_varlen_attn"sv, "_flex"sv, "_varlen"sv})
    if (flavor.ends_with(end)) return flavor.substr(0, flavor.size() - end.size());
  return flavor;
}

std::string flavor_of(const RecipePlace& place) {
  const std::string name = place.other("model.name");
  return (name.empty() ? "llama3" : name) + " " + without_attention(place.other("model.flavor"));
}

std::string_view model_of(const RecipePlace& place) {
  for (const auto& [flavor, model] : kFlavors)
    if (flavor == flavor_of(place)) return model;
  return {};
}

RecipeOptions model(const RecipePlace& place) {
  if (const std::string_view found = model_of(place); !found.empty())
    return {{"--model", std::string(found)}};
  if (place.asked.has_model) return {};
  place.fail(
      in_quotes(place.scalar()),
      "accepted: 8B, 70B or 405B of llama3; 0.6B to 32B of qwen3; any other with --model beside --recipe");
}

/// FlexAttention is planned as such: flavors of DeepSeek run it under any name. Layers of
/// scaled_dot_product_attention save what those of varlen do.
RecipeOptions attention(const RecipePlace& place) {
  const bool is_flex =
      place.scalar().find("_flex") != std::string::npos || flavor_of(place).starts_with("deepseek_v3 ");
  return {{"--torchtitan", is_flex ? "attn_backend=flex" : "attn_backend=varlen"}};
}

// ---- Sizes of a batch.

std::int64_t number_of(const RecipePlace& place, std::string_view key, std::int64_t otherwise,
                       std::int64_t least = -1) {
  const std::string written = place.other(key);
  if (written.empty()) return otherwise;
  return parse_integer(fmt::format("{}: {}", source_of(place.text, place.value), key), written, least,
                       1 << 30);
}

bool has_stages(const RecipePlace& place) {
  return number_of(place, "parallelism.pipeline_parallel_degree", 1) > 1;
}

/// Without stages the local batch is one micro-batch. With them it is all micro-batches of a step.
RecipeOptions batch_of(const RecipePlace& place, std::int64_t local) {
  if (!has_stages(place)) return {{"--micro-batch", std::to_string(local)}};
  const std::int64_t each = number_of(place, "parallelism.pipeline_parallel_microbatch_size", 1);
  if (each < 1 || local % each != 0)
    place.fail(fmt::format("local_batch_size {} is no multiple of pipeline_parallel_microbatch_size {}",
                           local, each),
               "accepted: a multiple");
  return {{"--micro-batch", std::to_string(each)}, {"--grad-accum", std::to_string(local / each)}};
}

RecipeOptions local_batch(const RecipePlace& place) {
  constexpr std::int64_t kLargest = 1 << 20;
  return batch_of(place, parse_integer(fmt::format("{}:{}: {}", source_of(place.text, place.value),
                                                   place.value.line, place.row.key),
                                       place.scalar(), 1, kLargest));
}

RecipeOptions local_batch_unsaid(const RecipePlace& place) {
  constexpr std::int64_t kDefault = 8;
  return batch_of(place, kDefault);
}

/// -1: as many samples as one micro-step of all ranks has.
RecipeOptions global_batch(const RecipePlace& place) {
  const bool is_open =
      place.scalar().starts_with("-") || has_stages(place);  // of stages the local batch says it
  return is_open ? RecipeOptions{} : as_text(place);
}

// ---- Degrees of parallelism.

/// All degrees together say how many GPUs there are, unless sharding takes what is left.
RecipeOptions shards(const RecipePlace& place) {
  const std::int64_t shard = number_of(place, place.row.key, -1);
  if (shard < 1) return {};
  std::int64_t gpus = shard;
  for (const std::string_view key : {"data_parallel_replicate_degree"sv, "tensor_parallel_degree"sv,
                                     "pipeline_parallel_degree"sv, "context_parallel_degree"sv}) {
    gpus *= std::max<std::int64_t>(1, number_of(place, fmt::format("parallelism.{}", key), 1));
    if (gpus > kMostGpus)
      place.fail(fmt::format("with the other degrees more than {} GPUs", kMostGpus),
                 "accepted: degrees whose product is the number of GPUs");
  }
  return {{"--gpus", std::to_string(gpus)}};
}

RecipeOptions above_one(const RecipePlace& place) {
  return place.scalar() == "1" ? RecipeOptions{} : as_text(place);
}

bool loops(const RecipePlace& place) {
  const auto schedule = from_name<PipelineSchedule>(place.other("parallelism.pipeline_parallel_schedule"));
  return schedule && takes_chunks(*schedule);
}

/// Returns a setting of torchtitan's own. Throws InputError where it does not take the value, which may be
/// words that --torchtitan would read as other settings.
RecipeOptions setting(const RecipePlace& place) {
  const std::string_view name = place.row.key.substr(place.row.key.rfind('.') + 1);
  const std::string word = fmt::format("{}={}", name, place.scalar());
  TitanOptions tried;
  try {
    set_titan_argument(tried, place.row.key, word);
  } catch (const InputError& error) {
    place.fail(error.found(), error.accepted());
  }
  return {{"--torchtitan", word}};
}

RecipeOptions stage_setting(const RecipePlace& place) {
  return has_stages(place) ? setting(place) : RecipeOptions{};
}

RecipeOptions schedule(const RecipePlace& place) {
  RecipeOptions options = stage_setting(place);
  if (options.empty()) return {};
  // torchtitan takes two parts of the model for each rank where nothing says how many layers one has.
  if (loops(place) && place.other("parallelism.pipeline_parallel_layers_per_stage").empty())
    options.emplace_back("--vpp", "2");
  return options;
}

/// Returns how many parts of the model a rank has.
RecipeOptions layers_per_stage(const RecipePlace& place) {
  if (!has_stages(place)) return {};
  const std::int64_t layers = known_layers(std::string(model_of(place))).value_or(0);
  if (layers == 0) {
    place.not_planned("the parts of the model on each rank, of which --vpp says the number");
    return {};
  }
  const std::int64_t each = number_of(place, place.row.key, 1, 1);
  const std::int64_t slots = layers +
                             number_of(place, "parallelism.pipeline_parallel_first_stage_less_layers", 1, 0) +
                             number_of(place, "parallelism.pipeline_parallel_last_stage_less_layers", 1, 0);
  const std::int64_t parts = (slots + each - 1) / each,
                     ranks = number_of(place, "parallelism.pipeline_parallel_degree", 1);
  if (parts % ranks != 0)
    place.fail(fmt::format("{} layers a stage make {} stages, no multiple of {} ranks", each, parts, ranks),
               "accepted: layers that make a multiple");
  return {{"--vpp", std::to_string(parts / ranks)}};
}

// ---- What these releases do otherwise.

RecipeOptions checkpointing(const RecipePlace& place) {
  const std::string mode = place.scalar(), option = place.other("activation_checkpoint.selective_ac_option");
  if (mode == "selective" && option != "op")
    place.not_planned(fmt::format(
        "whole layers, one of {}: the plan recomputes by operation (selective_ac_option = \"op\")",
        option.empty() ? "2" : option));
  return as_word(place);
}

RecipeOptions checkpointing_unsaid(const RecipePlace& place) {
  place.not_planned(
      "whole layers, one of 2: the plan recomputes by operation (selective_ac_option = \"op\")");
  return {{"--checkpointing", "selective"}};
}

RecipeOptions compiled(const RecipePlace& place) {
  if (place.boolean().value_or(false)) place.not_planned("what torch.compile fuses: the plan needs more");
  return {};
}

RecipeOptions converters(const RecipePlace& place) {
  constexpr std::size_t kMostNamed = 20;
  if (place.value.kind != RecipeKind::list) place.fail(in_quotes(place.value.text), "accepted: a list");
  const auto& items = place.value.items;
  for (std::size_t i = 0; i < std::min(items.size(), kMostNamed); ++i)
    place.not_planned(fmt::format("{}: the plan computes in bf16", items[i].text));
  if (items.size() > kMostNamed)
    place.not_planned(fmt::format("{} more: the plan computes in bf16", items.size() - kMostNamed));
  return {};
}

/// Another key's translation reads the value, if it is one.
RecipeOptions read_with_another(const RecipePlace& place) {
  static_cast<void>(place.scalar());
  return {};
}

std::vector<RecipeRow> rows() {
  return {
      {"model.name", "", read_with_another},
      {"model.flavor", "--model", model},
      {"model.flavor", "--torchtitan", attention},
      {"model.converters", "", converters},
      {"training.local_batch_size", "--micro-batch", local_batch},
      {"training.batch_size", "--micro-batch", local_batch},
      {"training.global_batch_size", "--global-batch", global_batch},
      {"training.seq_len", "--seq", as_text},
      {"training.dtype",
       "--no-master-weights",
       as_word,
       {{"float32", ""}, {"bfloat16", "--no-master-weights"}}},
      {"training.mixed_precision_param", "--precision", as_word, {{"bfloat16", ""}, {"float32", "fp32"}}},
      {"training.enable_cpu_offload", "--offload", as_word, {{"true", "all"}, {"false", "none"}}},
      {"training.compile", "", compiled},
      {"compile.enable", "", compiled},
      {"parallelism.data_parallel_shard_degree", "", shards},
      {"parallelism.data_parallel_replicate_degree", "--dp-replicate", above_one},
      {"parallelism.tensor_parallel_degree", "--tp", as_text},
      {"parallelism.context_parallel_degree", "--cp", above_one},
      {"parallelism.pipeline_parallel_degree", "--pp", as_text},
      {"parallelism.expert_parallel_degree", "--ep", above_one},
      {"parallelism.pipeline_parallel_schedule", "--torchtitan", schedule},
      {"parallelism.pipeline_parallel_microbatch_size", "", read_with_another},
      {"parallelism.pipeline_parallel_layers_per_stage", "--vpp", layers_per_stage},
      {"parallelism.pipeline_parallel_first_stage_less_layers", "--torchtitan", stage_setting},
      {"parallelism.pipeline_parallel_last_stage_less_layers", "--torchtitan", stage_setting},
      {"parallelism.pipeline_parallel_split_points", "", nullptr, {}, "stages of other layers"},
      {"parallelism.module_fqns_per_model_part", "", nullptr, {}, "stages of other layers"},
      {"parallelism.fsdp_reshard_after_forward", "--torchtitan", setting},
      {"parallelism.enable_async_tensor_parallel", "", nullptr, {}, "communication beside products"},
      {"parallelism.disable_loss_parallel", "", nullptr, {}, "whole logits on every tensor-parallel rank"},
      {"activation_checkpoint.mode",
       "--checkpointing",
       checkpointing,
       {{"none", "none"}, {"selective", "selective"}, {"full", "full"}}},
      {"activation_checkpoint.selective_ac_option", "", read_with_another},
      {"optimizer.name", "--optimizer", as_word, {{"AdamW", "adamw"}, {"Adam", "adam"}}},
      {"optimizer.early_step_in_backward", "", nullptr, {}, "gradients freed as the backward runs"},
      {"validation.enable", "", nullptr, {}, "validation between steps"}};
}

/// Their loss is of whole logits, and attention of a model without a flavor for it torch's own.
std::vector<RecipeDefault> defaults() {
  return {{"framework", "--framework", "torchtitan"},
          {"loss", "--torchtitan", "num_chunks=0"},
          {"training.seq_len", "--seq", "2048"},
          {"training.local_batch_size", "--micro-batch", "8", local_batch_unsaid},
          {"activation_checkpoint.mode", "--checkpointing", "selective", checkpointing_unsaid},
          {"parallelism.tensor_parallel_degree", "--tp", "1"},
          {"parallelism.pipeline_parallel_degree", "--pp", "1"},
          {"parallelism.context_parallel_degree", "--cp", "1"}};
}

}  // namespace

}  // namespace titan_toml

const RecipeTable& torchtitan_table() {
  static const RecipeTable table{
      .format = RecipeFormat::torchtitan,
      .title = "torchtitan",
      .trainers = "",
      .defaults = titan_toml::defaults(),
      .rows = titan_toml::rows(),
      .telling = {"model.flavor"},
      .launch = "torchrun --nproc-per-node {gpus} -m torchtitan.train --job.config_file {file}"};
  return table;
}

}  // namespace zplan
