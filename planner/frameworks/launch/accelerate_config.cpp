#include "planner/frameworks/launch/accelerate_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/base/format.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"
#include "planner/question/question.h"
#include "planner/sharding/plan_split.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

/// Keys as accelerate's own questionnaire writes them for FSDP2. Layers are wrapped by the model's
/// _no_split_modules where no classes are named. Source: accelerate 1.15 commands/config/cluster.py,
/// utils/fsdp_utils.py fsdp2_prepare_auto_wrap_policy.
Json fsdp_section(const Strategy& s, const Training& training) {
  const bool whole = training.beside.save == SavedModel::full;
  return {{"fsdp_version", 2},
          {"fsdp_reshard_after_forward", s.zero_stage == 3},
          {"fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
          {"fsdp_offload_params", s.offload_parameters != OffloadDevice::none},
          {"fsdp_cpu_ram_efficient_loading", true},
          {"fsdp_state_dict_type", whole ? "FULL_STATE_DICT" : "SHARDED_STATE_DICT"},
          {"fsdp_activation_checkpointing", s.checkpointing == Checkpointing::full}};
}

/// Words that YAML would read as something else.
bool needs_quotes(const std::string& text) {
  return text.empty() || text == "no" || text == "yes" || text == "on" || text == "off" ||
         text.find_first_of(":#'\"{}[],&*?|<>=!%@\\ ") != std::string::npos;
}

std::string scalar(const Json& value) {
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  return needs_quotes(text) ? value.dump() : text;
}

void write(const Json& object, const std::string& indent, std::string& out) {
  for (const auto& [key, value] : object.items())
    if (value.is_object()) {
      out += fmt::format("{}{}:\n", indent, key);
      write(value, indent + "  ", out);
    } else {
      out += fmt::format("{}{}: {}\n", indent, key, scalar(value));
    }
}

/// Returns the config of a model that transformers sharded as it loaded it, which needs no plugin: the
/// degrees tell accelerate which ranks share a batch. Replicas are data-parallel ranks, as the Trainer counts
/// them. Source: transformers 5.23 trainer.py create_accelerator_and_postprocess.
Json degrees_of_plan(Json config, const ParallelLayout& layout) {
  config.erase("fsdp_config");
  config["distributed_type"] = "MULTI_GPU";
  config["parallelism_config"] = {{"parallelism_config_dp_shard_size", layout.data_ranks()},
                                  {"parallelism_config_tp_size", layout.tensor}};
  return config;
}

}  // namespace

std::string_view mixed_precision(const Plan& plan, const Training& training) {
  const bool keeps_16_bit =
      !spec(plan.framework).casts_model && training.method == Method::full && !training.master_weights;
  return training.precision == Precision::fp32 || keeps_16_bit ? "no" : to_name(training.precision);
}

Json accelerate_config(const Plan& plan, const Question& question) {
  const Cluster& cluster = question.cluster;
  Json config = {{"compute_environment", "LOCAL_MACHINE"},
                 {"distributed_type", "FSDP"},
                 {"mixed_precision", mixed_precision(plan, question.training)},
                 {"num_machines", cluster.nodes},
                 {"num_processes", cluster.gpus},
                 {"machine_rank", 0},
                 {"fsdp_config", fsdp_section(plan.strategy, question.training)}};
  if (follows_plan(question.training, plan.strategy))
    return degrees_of_plan(std::move(config), plan.strategy.layout);
  if (plan.strategy.layout.replicate > 1)
    config["parallelism_config"] = {{"parallelism_config_dp_replicate_size", plan.strategy.layout.replicate},
                                    {"parallelism_config_dp_shard_size", plan.strategy.layout.shard}};
  if (plan.strategy.layout.context > 1)
    config["parallelism_config"] = {
        {"parallelism_config_dp_shard_size", plan.strategy.layout.shard},
        {"parallelism_config_cp_size", plan.strategy.layout.context},
        {"parallelism_config_cp_comm_strategy", to_name(plan.strategy.long_context.rotation)}};
  return config;
}

std::string yaml_text(const Json& config) {
  std::string out;
  write(config, "", out);
  return out;
}

namespace {

/// The model as each rank loads it.
Bytes packed_model(const Question& question) {
  const RankModel rank = rank_model(question.model, question.training, 1);
  Bytes sum{};
  for (const RankTensor& tensor : rank.tensors) sum += tensor.stored;
  return sum;
}

/// Source: accelerate 1.15 utils/fsdp_utils.py fsdp2_prepare_model (a model with Params4bit is not moved to
/// the meta device first); transformers 5.23 quantizers/quantizer_bnb_4bit.py update_device_map; peft docs
/// accelerate/fsdp.
void add_packed_notes(const Plan& plan, const Question& question, std::vector<std::string>& notes) {
  notes.push_back(packed_loading(question.training) +
                  "; FSDP1 wants adapters in it too (autocast_adapter_dtype=False)");
  notes.push_back(fmt::format(
      "load on the host, device_map={{\"\": \"cpu\"}}: FSDP2 then moves one group after the other to the "
      "GPU; without it each rank first puts the whole packed model on its GPU, {}",
      format_bytes(packed_model(question), question.unit)));
  if (plan.strategy.offload_parameters == OffloadDevice::none) return;
  notes.emplace_back(
      "fsdp_offload_params keeps packed shards in host memory; their quant state stays on the GPU");
}

/// The script's part where transformers divides and shards the model. Source: transformers 5.23
/// distributed/configuration_utils.py DistributedConfig; accelerate 1.15 accelerator.py _prepare_tp.
std::vector<std::string> plan_notes(const Plan& plan, const Training& training) {
  const ParallelLayout& layout = plan.strategy.layout;
  const bool mixed = training.master_weights && training.precision != Precision::fp32;
  const bool wide = mixed || training.precision == Precision::fp32;
  const std::string replicas =
      layout.replicate > 1 ? fmt::format("dp_replicate_size={}, ", layout.replicate) : "";
  return {
      fmt::format("transformers shards the model as it loads it: from_pretrained(..., dtype=torch.{}, "
                  "distributed_config=DistributedConfig(tp_size={}, fsdp_size={}, {}"
                  "fsdp_mixed_precision={}))",
                  wide ? "float32" : "bfloat16", layout.tensor, layout.shard, replicas,
                  mixed ? "True" : "False"),
      "accelerate's config has no FSDP: its own tensor parallelism beside FSDP2 (accelerate 1.15) stops with "
      "transformers 5.23 (ImportError: cannot import name 'ReplicateParallel')"};
}

std::vector<std::string> script_notes(const Plan& plan, const Question& question, bool fsdp) {
  std::vector<std::string> notes;
  const Training& training = question.training;
  const Strategy& s = plan.strategy;
  if (fsdp && shards_packed(training)) add_packed_notes(plan, question, notes);
  const bool by_plan = follows_plan(training, s);
  if (by_plan) notes = plan_notes(plan, training);
  fsdp = fsdp && !by_plan;
  if (fsdp && s.checkpointing == Checkpointing::full)
    notes.emplace_back(
        "activation checkpointing is the config's (fsdp_activation_checkpointing): leave "
        "gradient_checkpointing off in the training script");
  if (!fsdp && s.checkpointing == Checkpointing::full)
    notes.emplace_back(
        "activation checkpointing is the training script's: model.gradient_checkpointing_enable()");
  if (s.layout.context > 1)
    notes.push_back(
        fmt::format("context parallelism loads the model with attn_implementation=\"sdpa\", pads samples to "
                    "a multiple of "
                    "{} tokens, and wants an attention_mask of ones in the batch: without one a mask of {} "
                    "squared is made",
                    2 * s.layout.context, local_tokens(training, s)));
  if (s.checkpointing == Checkpointing::selective)
    notes.emplace_back(
        "selective checkpointing is the training script's: torch.utils.checkpoint with a policy that "
        "saves matrix products and attention");
  if (training.method == Method::full && training.precision != Precision::fp32 && !by_plan)
    notes.push_back(training.master_weights && fsdp
                        ? std::string("accelerate makes fp32 weights of the model's before it shards them")
                        : fmt::format("load the model in {}", training.master_weights
                                                                  ? "fp32 (dtype=torch.float32)"
                                                              : training.precision == Precision::bf16
                                                                  ? "bf16 (dtype=torch.bfloat16)"
                                                                  : "fp16 (dtype=torch.float16)"));
  if (s.gradient_accumulation_steps > 1 || s.micro_batch_size > 1)
    notes.push_back(fmt::format(
        "the batch is the training script's: per_device_train_batch_size={}, gradient_accumulation_steps={}",
        s.micro_batch_size, s.gradient_accumulation_steps));
  return notes;
}

}  // namespace

std::vector<std::string> fsdp_notes(const Plan& plan, const Question& question) {
  return script_notes(plan, question, true);
}

std::vector<std::string> ddp_notes(const Plan& plan, const Question& question) {
  return script_notes(plan, question, false);
}

}  // namespace zplan
