// accelerate's config: how a script is launched. Source: accelerate 1.15
// commands/config/{config_args,cluster}.py, utils/dataclasses.py.

#include <fmt/format.h>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"
#include "models/base/names.h"

namespace zplan {

namespace {

/// Both devices make one option.
RecipeOptions offloaded(const RecipePlace& place) {
  const auto device = [&](std::string_view key) {
    const std::string word = place.other(fmt::format("deepspeed_config.{}", key));
    return word.empty() ? std::string("none") : lower_case(word);
  };
  const std::string states = device("offload_optimizer_device"), weights = device("offload_param_device");
  for (const std::string& each : {states, weights})
    if (each != "none" && each != "cpu" && each != "nvme")
      place.fail(in_quotes(each), "accepted: none, cpu, nvme");
  const auto part = [](const std::string& kind, const std::string& where) {
    return where == "none" ? std::string() : where == "nvme" ? kind + "-nvme" : kind;
  };
  if (states == weights)
    return {{"--offload", states == "none" ? "none" : states == "cpu" ? "all" : "all-nvme"}};
  std::string both = part("optimizer", states);
  if (weights != "none") both += (both.empty() ? "" : "+") + part("param", weights);
  return {{"--offload", both}};
}

/// Keys of a section that is not the one in use stay where the questionnaire left them.
RecipeOptions if_deepspeed(const RecipePlace& place) {
  return place.other("distributed_type") == "DEEPSPEED" ? as_text(place) : RecipeOptions{};
}

RecipeOptions config_file(const RecipePlace& place) {
  return place.other("distributed_type") == "DEEPSPEED" ? as_ds_config(place) : RecipeOptions{};
}

/// Gradients accumulate as often as the script says where this is "auto".
RecipeOptions accumulation(const RecipePlace& place) {
  return place.scalar() == "auto" ? RecipeOptions{} : if_deepspeed(place);
}

}  // namespace

const RecipeTable& accelerate_table() {
  static const RecipeTable table{
      .format = RecipeFormat::accelerate,
      .title = "accelerate",
      .trainers = "",
      .defaults = {},
      .rows =
          {{"distributed_type",
            "--framework",
            as_word,
            {{"DEEPSPEED", "deepspeed"}, {"FSDP", "fsdp"}, {"MULTI_GPU", "torch"}, {"NO", "torch"}}},
           {"num_processes", "--gpus", as_text},
           {"num_machines", "--nodes", as_text},
           {"mixed_precision",
            "--precision",
            as_word,
            {{"bf16", "bf16"}, {"fp16", "fp16"}, {"no", ""}, {"false", ""}}},
           {"deepspeed_config.zero_stage", "--zero", if_deepspeed},
           {"deepspeed_config.offload_optimizer_device", "--offload", offloaded},
           {"deepspeed_config.offload_param_device", "--offload", offloaded},
           {"deepspeed_config.gradient_accumulation_steps", "--grad-accum", accumulation},
           {"deepspeed_config.deepspeed_config_file", "--ds-config", config_file},
           {"deepspeed_config.zero3_init_flag", "", as_word, {{"true", ""}, {"false", "--load-everywhere"}}},
           {"fsdp_config.fsdp_sharding_strategy",
            "--zero",
            as_word,
            {{"FULL_SHARD", "3"}, {"SHARD_GRAD_OP", "2"}, {"1", "3"}, {"2", "2"}}},
           {"fsdp_config.fsdp_reshard_after_forward",
            "--zero",
            as_word,
            {{"true", "3"}, {"false", "2"}, {"FULL_SHARD", "3"}, {"SHARD_GRAD_OP", "2"}}},
           {"fsdp_config.fsdp_offload_params", "--offload", as_word, {{"true", "all"}, {"false", "none"}}},
           {"fsdp_config.fsdp_activation_checkpointing",
            "--checkpointing",
            as_word,
            {{"true", "full"}, {"false", ""}}},
           {"fsdp_config.fsdp_state_dict_type",
            "--save",
            as_word,
            {{"FULL_STATE_DICT", "full"}, {"SHARDED_STATE_DICT", "sharded"}}},
           {"parallelism_config.parallelism_config_cp_size", "--cp", as_text},
           {"parallelism_config.parallelism_config_cp_comm_strategy",
            "--cp-rotate",
            as_word,
            {{"allgather", "allgather"}, {"alltoall", "alltoall"}}},
           {"parallelism_config.parallelism_config_tp_size", "", as_word, {{"1", ""}}},
           {"megatron_lm_config", "", nullptr, {}, "Megatron-LM"},
           {"fp8_config", "", nullptr, {}, "products in 8 bits"}},
      .telling = {"distributed_type", "compute_environment"}};
  return table;
}

}  // namespace zplan
