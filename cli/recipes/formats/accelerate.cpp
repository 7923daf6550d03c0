// accelerate's config: how a script is launched. Source: accelerate 1.15
// commands/config/{config_args,cluster}.py, commands/launch.py, utils/dataclasses.py.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"
#include "models/base/names.h"

namespace zplan {

namespace accelerate {

namespace {

/// Both devices make one option.
RecipeOptions offloaded(const RecipePlace& place) {
  const auto device = [&](std::string_view key) {
    const std::string word = place.other(fmt::format("deepspeed_config.{}", key));
    return word.empty() ? std::string("none") : lower_case(word);
  };
  std::string states = device("offload_optimizer_device"), weights = device("offload_param_device");
  for (const std::string& each : {states, weights})
    if (each != "none" && each != "cpu" && each != "nvme")
      place.fail(in_quotes(each), "accepted: none, cpu, nvme");
  // DeepSpeed offloads parameters at stage 3 alone.
  if (weights != "none" && place.other("deepspeed_config.zero_stage") != "3") {
    if (place.row.key.ends_with("offload_param_device"))
      place.not_planned("DeepSpeed keeps parameters on the GPU below stage 3");
    weights = "none";
  }
  const auto part = [](const std::string& kind, const std::string& where) {
    return where == "none" ? std::string() : where == "nvme" ? kind + "-nvme" : kind;
  };
  if (states == weights)
    return {{"--offload", states == "none" ? "none" : states == "cpu" ? "all" : "all-nvme"}};
  std::string both = part("optimizer", states);
  if (weights != "none") both += (both.empty() ? "" : "+") + part("param", weights);
  return {{"--offload", both}};
}

bool is_of(const RecipePlace& place, std::string_view type) {
  return place.other("distributed_type") == type;
}

/// Keys of a section that is not the one in use stay where the questionnaire left them.
RecipeOptions if_deepspeed(const RecipePlace& place) {
  return is_of(place, "DEEPSPEED") ? as_text(place) : RecipeOptions{};
}

RecipeOptions config_file(const RecipePlace& place) {
  return is_of(place, "DEEPSPEED") ? as_ds_config(place) : RecipeOptions{};
}

RecipeOptions zero_offload(const RecipePlace& place) {
  return is_of(place, "DEEPSPEED") ? offloaded(place) : RecipeOptions{};
}

/// Gradients accumulate as often as the script says where this is "auto".
RecipeOptions accumulation(const RecipePlace& place) {
  return place.scalar() == "auto" ? RecipeOptions{} : if_deepspeed(place);
}

// ---- What launches.

RecipeOptions distributed(const RecipePlace& place) {
  constexpr std::array<std::string_view, 8> kOthers{"MULTI_XPU",  "MULTI_NPU", "MULTI_MLU",    "MULTI_SDAA",
                                                    "MULTI_MUSA", "MULTI_HPU", "MULTI_NEURON", "MULTI_CPU"};
  const std::string type = place.scalar();
  if (type == "MEGATRON_LM")
    place.fail("Megatron-LM is not planned yet", "accepted: DEEPSPEED, FSDP, MULTI_GPU, NO");
  if (std::ranges::find(kOthers, type) != kOthers.end()) {
    place.not_planned("devices of another kind are planned as GPUs");
    return {{"--framework", "torch"}};
  }
  return as_word(place);
}

RecipeOptions precision(const RecipePlace& place) {
  if (place.scalar() == "fp8") place.not_planned("products in 8 bits are planned in bf16");
  return as_word(place);
}

RecipeOptions on_cpu(const RecipePlace& place) {
  if (place.boolean().value_or(false)) place.fail("a training on the CPU", "accepted: false");
  return {};
}

RecipeOptions compiled(const RecipePlace& place) {
  const std::string backend = lower_case(place.scalar());
  if (!backend.empty() && backend != "no" && backend != "false")
    place.not_planned("what torch.compile fuses");
  return {};
}

// ---- FSDP.

bool is_fsdp2(const RecipePlace& place) { return place.other("fsdp_config.fsdp_version") == "2"; }

RecipeOptions fsdp(const RecipePlace& place) {
  if (is_of(place, "FSDP") && !is_fsdp2(place)) place.not_planned("FSDP1 is planned as FSDP2");
  return {};
}

/// FULL_SHARD, HYBRID_SHARD, …: FSDP1's strategies, by name or number. A hybrid one shards within a node.
RecipeOptions strategy(const RecipePlace& place) {
  if (!is_of(place, "FSDP")) return {};
  const std::string word = place.scalar();
  if (word == "NO_SHARD" || word == "3") {
    place.not_planned("FSDP that shards nothing is planned as DistributedDataParallel");
    return {{"--framework", "torch"}};
  }
  const std::string nodes = place.other("num_machines");
  RecipeOptions options = as_word(place);
  const bool is_hybrid = word.starts_with("HYBRID") || word == "4" || word == "5";
  if (is_hybrid && !nodes.empty() && nodes != "1") options.emplace_back("--dp-replicate", nodes);
  return options;
}

RecipeOptions if_fsdp(const RecipePlace& place) {
  return is_of(place, "FSDP") ? as_word(place) : RecipeOptions{};
}

// ---- Degrees of parallelism. Source: parallelism_config.py.

bool is_one(const RecipePlace& place) { return place.scalar().empty() || place.scalar() == "1"; }

/// Plain data parallelism replicates anyway.
RecipeOptions replicas(const RecipePlace& place) {
  return is_one(place) || !is_of(place, "FSDP") ? RecipeOptions{} : as_text(place);
}

RecipeOptions tensor_parallel(const RecipePlace& place) {
  if (is_one(place)) return {};
  if (is_of(place, "DEEPSPEED")) return {{"--tp", place.scalar()}};
  const std::string ring = place.other("parallelism_config.parallelism_config_cp_size");
  if (is_of(place, "FSDP") && (ring.empty() || ring == "1")) {
    place.not_planned(
        "accelerate 1.15 stops at tensor parallelism beside FSDP2 with transformers 5.23 (cannot import name "
        "'ReplicateParallel'): planned as transformers' own, DistributedConfig(tp_size, fsdp_size)");
    return {{"--tp", place.scalar()}};
  }
  place.not_planned(
      "tensor parallelism without FSDP2 or with a ring: each GPU is planned with whole layers, which take "
      "more");
  return {};
}

/// Ulysses is DeepSpeed's.
RecipeOptions sequence_parallel(const RecipePlace& place) {
  if (is_one(place)) return {};
  if (is_of(place, "DEEPSPEED")) return {{"--sp", place.scalar()}};
  place.not_planned(
      "sequence parallelism without DeepSpeed: each GPU is planned with whole samples, which take more");
  return {};
}

RecipeOptions nothing(const RecipePlace&) { return {}; }

std::vector<RecipeRow> rows() {
  return {{"distributed_type",
           "--framework",
           distributed,
           {{"DEEPSPEED", "deepspeed"},
            {"FSDP", "fsdp"},
            {"MULTI_GPU", "torch"},
            {"NO", "torch"},
            {"false", "torch"}}},
          {"num_processes", "--gpus", as_text},
          {"num_machines", "--nodes", as_text},
          {"mixed_precision",
           "--precision",
           precision,
           {{"bf16", "bf16"}, {"fp16", "fp16"}, {"fp8", "bf16"}, {"no", ""}, {"false", ""}}},
          {"use_cpu", "", on_cpu},
          {"deepspeed_config.zero_stage", "--zero", if_deepspeed},
          {"deepspeed_config.offload_optimizer_device", "--offload", zero_offload},
          {"deepspeed_config.offload_param_device", "--offload", zero_offload},
          {"deepspeed_config.gradient_accumulation_steps", "--grad-accum", accumulation},
          {"deepspeed_config.deepspeed_config_file", "--ds-config", config_file},
          {"deepspeed_config.zero3_init_flag", "", as_word, {{"true", ""}, {"false", "--load-everywhere"}}},
          {"fsdp_config", "", fsdp},
          {"fsdp_config.fsdp_version", "", as_word, {{"1", ""}, {"2", ""}}},
          {"fsdp_config.fsdp_sharding_strategy",
           "--zero",
           strategy,
           {{"FULL_SHARD", "3"},
            {"SHARD_GRAD_OP", "2"},
            {"HYBRID_SHARD", "3"},
            {"HYBRID_SHARD_ZERO2", "2"},
            {"1", "3"},
            {"2", "2"},
            {"4", "3"},
            {"5", "2"}}},
          {"fsdp_config.fsdp_reshard_after_forward",
           "--zero",
           strategy,
           {{"true", "3"},
            {"false", "2"},
            {"FULL_SHARD", "3"},
            {"SHARD_GRAD_OP", "2"},
            {"HYBRID_SHARD", "3"},
            {"HYBRID_SHARD_ZERO2", "2"}}},
          {"fsdp_config.fsdp_offload_params", "--offload", if_fsdp, {{"true", "all"}, {"false", "none"}}},
          {"fsdp_config.fsdp_activation_checkpointing",
           "--checkpointing",
           if_fsdp,
           {{"true", "full"}, {"false", ""}}},
          {"fsdp_config.fsdp_state_dict_type",
           "--save",
           if_fsdp,
           {{"FULL_STATE_DICT", "full"}, {"SHARDED_STATE_DICT", "sharded"}, {"LOCAL_STATE_DICT", "sharded"}}},
          {"parallelism_config.parallelism_config_dp_replicate_size", "--dp-replicate", replicas},
          {"parallelism_config.parallelism_config_dp_shard_size", "", nothing},
          {"parallelism_config.parallelism_config_cp_size", "--cp", as_text},
          {"parallelism_config.parallelism_config_cp_comm_strategy",
           "--cp-rotate",
           as_word,
           {{"allgather", "allgather"}, {"alltoall", "alltoall"}}},
          {"parallelism_config.parallelism_config_tp_size", "--tp", tensor_parallel},
          {"parallelism_config.parallelism_config_sp_size", "--sp", sequence_parallel},
          {"parallelism_config.parallelism_config_sp_backend", "", nothing},
          {"parallelism_config.parallelism_config_sp_seq_length_is_variable", "", nothing},
          {"parallelism_config.parallelism_config_sp_attn_implementation",
           "--attention",
           as_word,
           {{"flash_attention_2", "flash"}, {"flash_attention_3", "flash"}, {"sdpa", "sdpa"}}},
          {"dynamo_config.dynamo_backend", "", compiled},
          {"dynamo_backend", "", compiled},
          {"megatron_lm_config", "", nullptr, {}, "Megatron-LM"},
          {"fp8_config", "", nullptr, {}, "products in 8 bits"}};
}

}  // namespace

}  // namespace accelerate

const RecipeTable& accelerate_table() {
  static const RecipeTable table{.format = RecipeFormat::accelerate,
                                 .title = "accelerate",
                                 .trainers = "",
                                 .defaults = {},
                                 .rows = accelerate::rows(),
                                 .telling = {"distributed_type", "compute_environment"}};
  return table;
}

}  // namespace zplan
