// OpenRLHF's commands. Source: openrlhf 0.11.2 cli/{train_sft,train_dpo,train_rm,train_ppo_ray}.py,
// utils/deepspeed/deepspeed_utils.py; flags without dots: 0.5 to 0.10.

#include <fmt/format.h>

#include "cli/base/values.h"
#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"

namespace zplan {

namespace openrlhf {

namespace {

bool runs(const RecipePlace& place, std::string_view script) {
  for (const std::string& word : place.text.command)
    if (word.find(script) != std::string::npos) return true;
  return false;
}

RecipeOptions objective(const RecipePlace& place) {
  if (runs(place, "train_dpo")) return {{"--objective", "dpo"}};
  if (runs(place, "train_rm")) return {{"--objective", "reward"}};
  return {};
}

/// Rank 0, the default, trains all weights.
RecipeOptions adapters(const RecipePlace& place) {
  const std::string rank = place.scalar();
  if (rank == "0" || rank.empty()) return {};
  const bool packed = place.is_on("ds.load_in_4bit") || place.is_on("load_in_4bit");
  return {{"--method", packed ? "qlora" : "lora"}, {"--lora-rank", rank}};
}

RecipeOptions with_adapters(const RecipePlace& place) {
  const auto is_some = [](const std::string& rank) { return !rank.empty() && rank != "0"; };
  if (!is_some(place.other("ds.lora.rank")) && !is_some(place.other("lora_rank"))) return {};
  return place.row.option == "--lora-targets" ? as_targets(place) : as_text(place);
}

/// Full rows are what plans have.
RecipeOptions packed(const RecipePlace& /*place*/) { return {}; }

RecipeOptions optimizer_offload(const RecipePlace& place) {
  return place.boolean().value_or(true) ? RecipeOptions{{"--offload", "optimizer"}} : RecipeOptions{};
}

RecipeOptions checkpointing(const RecipePlace& place) {
  return place.boolean().value_or(true) ? RecipeOptions{{"--checkpointing", "full"}} : RecipeOptions{};
}

RecipeOptions liger(const RecipePlace& place) {
  if (!place.boolean().value_or(true)) return {};
  return {{"--kernels", "liger"}, {"--fused-loss", std::string(kFlagGiven)}};
}

RecipeOptions flash(const RecipePlace& place) {
  return place.boolean().value_or(true) ? RecipeOptions{{"--attention", "flash"}} : RecipeOptions{};
}

RecipeOptions optimizer(const RecipePlace& place) {
  const std::string name = place.scalar();
  if (name == "muon") return {{"--optimizer", "muon"}};
  if (name != "adam") place.fail(in_quotes(name), "accepted: adam, muon");
  return {{"--optimizer", "adamw"}};
}

/// A size that is planned as 1 alone.
RecipeOptions only_one(const RecipePlace& place) {
  if (place.scalar() != "1") place.not_planned("ring attention over ranks of a sample");
  return {};
}

/// A flag by its name with a dot and by that of older releases; either may be empty.
struct Flag {
  std::string_view dotted, plain, option;
  TranslateRecipe translate{};
  std::vector<std::pair<std::string_view, std::string_view>> words{};
  std::string_view not_planned{};
};

std::vector<RecipeRow> openrlhf_rows() {
  const std::vector<Flag> flags{
      {"model.model_name_or_path", "pretrain", "--model", as_model},
      {"data.max_len", "max_len", "--seq", as_text},
      {"train.micro_batch_size", "micro_train_batch_size", "--micro-batch", as_text},
      {"train.batch_size", "train_batch_size", "--global-batch", as_text},
      {"ds.zero_stage", "zero_stage", "--zero", as_text},
      {"ds.adam_offload", "adam_offload", "--offload", optimizer_offload},
      {"ds.param_dtype", "param_dtype", "--precision", as_word, {{"bf16", "bf16"}, {"fp16", "fp16"}}},
      {"model.gradient_checkpointing_enable", "gradient_checkpointing", "--checkpointing", checkpointing},
      {"ds.attn_implementation",
       "attn_implementation",
       "--attention",
       as_word,
       {{"flash_attention_2", "flash"},
        {"flash_attention_3", "flash"},
        {"sdpa", "sdpa"},
        {"eager", "eager"}}},
      {"", "flash_attn", "--attention", flash},
      {"ds.lora.rank", "lora_rank", "--method", adapters},
      {"ds.lora.target_modules", "target_modules", "--lora-targets", with_adapters},
      {"ds.lora.dropout", "lora_dropout", "--lora-dropout", with_adapters},
      {"ds.packing_samples", "packing_samples", "", packed},
      {"ds.use_liger_kernel", "use_liger_kernel", "--kernels", liger},
      {"ds.tensor_parallel_size", "ds_tensor_parallel_size", "--tp", as_text},
      {"ds.ring_attn_size", "ring_attn_size", "", only_one},
      {"optim", "", "--optimizer", optimizer},
      {"ref.offload", "ref_offload", "", nullptr, {}, "a reference model on the host"},
      {"ds.deepcompile", "deepcompile", "", nullptr, {}, "DeepCompile"}};
  std::vector<RecipeRow> rows;
  for (const Flag& each : flags)
    for (const std::string_view key : {each.dotted, each.plain})
      if (!key.empty()) rows.push_back({key, each.option, each.translate, each.words, each.not_planned});
  return rows;
}

std::vector<RecipeCommand> openrlhf_commands() {
  constexpr std::string_view kRay =
      "OpenRLHF's PPO, whose actors, critics and engines of vLLM have GPUs of their own,";
  return {{.words = "openrlhf train_sft"},
          {.words = "openrlhf train_dpo"},
          {.words = "openrlhf train_rm"},
          {.words = "openrlhf train_ppo_ray", .not_planned = kRay},
          {.words = "openrlhf train_kto", .not_planned = "OpenRLHF's KTO"},
          {.words = "openrlhf train_kd", .not_planned = "OpenRLHF's distillation"},
          {.words = "openrlhf lora_combiner", .does = "merges adapters into a model"},
          {.words = "openrlhf serve_rm", .does = "serves a reward model"},
          {.words = "openrlhf batch_inference", .does = "runs a model"}};
}

}  // namespace

}  // namespace openrlhf

const RecipeTable& openrlhf_table() {
  static const RecipeTable table{
      .format = RecipeFormat::openrlhf,
      .title = "OpenRLHF",
      .trainers = "",
      .defaults = {{"objective", "--objective", "", openrlhf::objective},
                   {"train.micro_batch_size", "--micro-batch", "8"},
                   {"train.batch_size", "--global-batch", "128"},
                   {"data.max_len", "--seq", "2048"},
                   {"ds.zero_stage", "--zero", "2"},
                   {"ds.zero_stage", "--framework", "deepspeed"},
                   {"ds.adam_offload", "--offload", "none"},
                   {"model.gradient_checkpointing_enable", "--checkpointing", "none"},
                   {"ds.zero_stage", "--buckets", "default"},
                   {"ds.param_dtype", "--precision", "bf16"}},
      .rows = openrlhf::openrlhf_rows(),
      .telling = {"pretrain", "micro_train_batch_size"},
      .commands = openrlhf::openrlhf_commands(),
      .trains = "a command that trains (openrlhf.cli.train_sft, train_dpo, train_rm)"};
  return table;
}

}  // namespace zplan
