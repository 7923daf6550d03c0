#include "planner/frameworks/deepspeed/config/ds_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/expert_config.h"
#include "planner/frameworks/deepspeed/config/releases.h"
#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"
#include "planner/question/question.h"
#include "planner/sharding/expert_model.h"

namespace zplan {

namespace {

/// DeepSpeed 0.19.8 offload_config.py: elements of one buffer for parameters on NVMe where none are named.
constexpr Elements kSwapBuffer{100'000'000};

struct Inputs {
  const Plan& plan;
  const Question& question;
  const DsConfigOptions& options;

  [[nodiscard]] const Strategy& strategy() const { return plan.strategy; }
  [[nodiscard]] const Training& training() const { return question.training; }
  [[nodiscard]] bool autos() const { return options.style != ConfigStyle::plain; }
  /// `value`, or "auto" where the HF Trainer knows it.
  template <class T>
  [[nodiscard]] Json filled(const T& value) const {
    return autos() ? Json("auto") : Json(value);
  }
};

bool is_16_bit(const Training& training) { return training.precision != Precision::fp32; }

// ---- batch, precision

void add_batch(Json& config, const Inputs& in) {
  const Strategy& s = in.strategy();
  config["train_micro_batch_size_per_gpu"] = in.filled(s.micro_batch_size);
  config["gradient_accumulation_steps"] = in.filled(s.gradient_accumulation_steps);
  // Under sequence parallelism accelerate works it out, and zero.Init by sequence_parallel_size.
  if (s.layout.sequence > 1) config["sequence_parallel_size"] = s.layout.sequence;
  if (s.layout.tensor == 1 && s.layout.sequence == 1)
    config["train_batch_size"] = in.filled(s.global_batch_size());
  config["gradient_clipping"] = in.filled(s.zero.gradient_clipping);
}

void add_precision(Json& config, const Inputs& in) {
  const Training& training = in.training();
  if (!is_16_bit(training)) return;
  Json section = {{"enabled", in.filled(true)}};
  const bool bf16 = training.precision == Precision::bf16;
  if (drops_master(training, in.strategy())) {
    section[bf16 ? "bf16_master_weights_and_grads" : "fp16_master_weights_and_grads"] = true;
    if (bf16) section["bf16_optimizer_states"] = true;
  }
  config[bf16 ? "bf16" : "fp16"] = section;
}

void add_accumulation(Json& config, const Inputs& in) {
  const bool wanted = in.strategy().zero.fp32_gradient_accumulation && is_16_bit(in.training());
  if (wanted && in.strategy().zero_stage > 0) config["data_types"] = {{"grad_accum_dtype", "fp32"}};
}

// ---- optimizer

Json optimizer_params(const Inputs& in, const OptimizerSpec& optimizer) {
  Json params = {{"lr", in.filled(starting_learning_rate(in.training()))}};
  const bool adamw = in.training().optimizer == Optimizer::adamw;
  if (adamw && in.autos()) params["betas"] = "auto", params["eps"] = "auto";
  if (optimizer.takes_weight_decay) params["weight_decay"] = in.filled(kWeightDecay);
  if (in.training().optimizer == Optimizer::sgd_momentum) params["momentum"] = 0.9;
  return params;
}

/// Beside an optimizer of the config's own: a script that makes the optimizer makes the schedule too. The
/// Trainer knows how many steps there are, and its own schedule is this one; a plain config does not, and
/// only warms up.
void add_scheduler(Json& config, const Inputs& in) {
  if (in.options.style == ConfigStyle::ms_swift) return;
  Json params = {{"warmup_max_lr", in.filled(starting_learning_rate(in.training()))},
                 {"warmup_num_steps", in.filled(kWarmupSteps)}};
  if (in.autos()) {
    params["warmup_min_lr"] = "auto", params["total_num_steps"] = "auto";
  } else {
    params["warmup_type"] = "linear";
  }
  config["scheduler"] = {{"type", in.autos() ? "WarmupDecayLR" : "WarmupLR"}, {"params", params}};
}

void add_optimizer(Json& config, const Inputs& in) {
  const OptimizerSpec& optimizer = spec(in.training().optimizer);
  const bool made_by_swift =
      in.options.style == ConfigStyle::ms_swift && in.training().optimizer == Optimizer::adamw;
  const bool written = !optimizer.deepspeed_type.empty() && !made_by_swift;
  if (written)
    config["optimizer"] = {{"type", optimizer.deepspeed_type}, {"params", optimizer_params(in, optimizer)}};
  // For an optimizer of the script's the HF Trainer sets it itself.
  if (in.strategy().zero_stage > 0 && !optimizer.deepspeed_tested && (written || !in.autos()))
    config["zero_allow_untested_optimizer"] = true;
  if (written) add_scheduler(config, in);
}

// ---- zero_optimization

/// Sets `key` where `value` is not DeepSpeed's default; "auto" where that is what the HF Trainer makes of it.
void set_size(Json& section, std::string_view key, Elements value, Elements by_default,
              std::optional<Elements> by_trainer = {}) {
  if (by_trainer == value)
    section[std::string(key)] = "auto";
  else if (value != by_default)
    section[std::string(key)] = value.value;
}

void add_buckets(Json& section, const Inputs& in) {
  const ZeroOptions& zero = in.strategy().zero;
  const ZeroOptions defaults;
  const ZeroOptions trainer = zero_options(Buckets::hf_auto, in.question.model.shape.hidden_size);
  const auto filled = [&](Elements value) { return in.autos() ? std::optional(value) : std::nullopt; };
  if (uses_bf16_optimizer(in.training(), in.strategy())) return;
  set_size(section, "reduce_bucket_size", zero.reduce_bucket_size, defaults.reduce_bucket_size,
           filled(trainer.reduce_bucket_size));
  if (zero.overlap_comm) section["overlap_comm"] = *zero.overlap_comm;
  if (!zero.reduce_scatter) section["reduce_scatter"] = false;
  if (in.strategy().zero_stage < 3 && !zero.multi_rank_bucket_allreduce)
    section["use_multi_rank_bucket_allreduce"] = false;
  if (in.strategy().zero_stage < 3 && zero.parameter_alignment) section["parameter_alignment"] = true;
  if (in.strategy().zero_stage < 3) return;
  if (zero.gather_by_all_reduce) section["stage3_use_all_reduce_for_fetch_params"] = true;
  if (zero.gather_one_by_one) section["stage3_allgather_sequential"] = true;
  if (zero.quantized_weights) section["zero_quantized_weights"] = true;
  if (zero.quantized_gradients) section["zero_quantized_gradients"] = true;
  if (zero.secondary_partition > 1) section["zero_hpz_partition_size"] = zero.secondary_partition;
  set_size(section, "stage3_prefetch_bucket_size", zero.prefetch_bucket_size, defaults.prefetch_bucket_size,
           filled(trainer.prefetch_bucket_size));
  set_size(section, "stage3_param_persistence_threshold", zero.persistence_threshold,
           defaults.persistence_threshold, filled(trainer.persistence_threshold));
  set_size(section, "stage3_max_live_parameters", zero.max_live_parameters, defaults.max_live_parameters);
  set_size(section, "stage3_max_reuse_distance", zero.max_reuse_distance, defaults.max_reuse_distance);
  set_size(section, "sub_group_size", zero.sub_group_size, defaults.sub_group_size);
}

Json device(OffloadDevice where, const Inputs& in) {
  Json section = {{"device", to_name(where)}};
  if (where == OffloadDevice::nvme) section["nvme_path"] = in.options.nvme_path;
  return section;
}

Elements swap_buffer(const Inputs& in) {
  const Strategy& s = in.strategy();
  const RankModel rank = rank_model(with_local_experts(in.question.model, s), in.training(), s.layout.tensor);
  return swap_buffer_size(rank, in.training(), s);
}

void add_offload(Json& section, const Inputs& in) {
  const Strategy& s = in.strategy();
  if (s.offload_optimizer != OffloadDevice::none)
    section["offload_optimizer"] = device(s.offload_optimizer, in);
  if (s.zero_stage < 3 || s.offload_parameters == OffloadDevice::none) return;
  Json parameters = device(s.offload_parameters, in);
  const Elements buffer = swap_buffer(in);
  if (s.offload_parameters == OffloadDevice::nvme && buffer > kSwapBuffer)
    parameters["buffer_size"] = buffer.value;
  section["offload_param"] = parameters;
}

void add_zero(Json& config, const Inputs& in) {
  const int stage = in.strategy().zero_stage;
  Json section = {{"stage", stage}};
  if (stage > 0) {
    add_buckets(section, in);
    add_offload(section, in);
  }
  // Without it the Trainer's save_model writes no weights that from_pretrained could load.
  if (stage == 3 && in.autos())
    section["stage3_gather_16bit_weights_on_model_save"] =
        in.training().beside.save.value_or(usual_save(in.strategy())) == SavedModel::full;
  config["zero_optimization"] = section;
}

/// Returns AutoTP's partition of attention beside AutoEP, which refuses styles of Hugging Face's own plans
/// for mixtures.
Json attention_partition() {
  const auto layers = [](const char* pattern, const char* kind) {
    return Json{{"patterns", {pattern}}, {"partition_type", kind}};
  };
  return {{"use_default_specs", false},
          {"layer_specs",
           {layers(".*\\.self_attn\\.o_proj\\.weight$", "row"),
            layers(".*\\.self_attn\\.[qkv]_proj\\.weight$", "column")}}};
}

/// expert_parallel: what is not DeepSpeed's default.
void add_experts(Json& config, const Inputs& in) {
  const Strategy& s = in.strategy();
  if (!s.experts.enabled) return;
  Json section = {{"enabled", true}, {"autoep_size", s.layout.expert}};
  if (const auto preset = preset_for(in.question.model.shape.architecture)) section["preset_model"] = *preset;
  if (in.training().method != Method::full) {
    section["preset_model"] = preset_of_adapted(in.question.model.shape.architecture);
    section["moe_layer_pattern"] = kAdaptedMixtures;
  }
  if (s.experts.weighs_rows) section["score_apply"] = "pre";
  if (s.experts.combine != ExpertCombine::weighted_sum) section["combine_impl"] = to_name(s.experts.combine);
  if (s.experts.fused_gate_up) section["gate_up_impl"] = "fused";
  if (s.experts.without_triton) section["disable_triton_grouped_mm"] = true;
  if (s.experts.async_split_plan) section["async_split_plan"] = true;
  if (s.experts.route_norm) section["route_norm"] = *s.experts.route_norm;
  config["expert_parallel"] = section;
  if (s.layout.data_before_expert) config["use_data_before_expert_parallelism"] = true;
  if (s.layout.tensor > 1) config["tensor_parallel"]["partition_config"] = attention_partition();
}

void add_disk(Json& config, const Inputs& in) {
  const Strategy& s = in.strategy();
  if (s.offload_optimizer != OffloadDevice::nvme && s.offload_parameters != OffloadDevice::nvme) return;
  // Source: the NVMe example of transformers' documentation; the rest are DeepSpeed's defaults.
  config["aio"] = {{"block_size", 262144}, {"queue_depth", 32}};
}

// ---- notes

using Notes = std::vector<std::string>;

void note_checkpointing(const Plan& plan, const Training& training, Notes& notes) {
  if (needs_reentrant_checkpointing(training, plan.strategy)) {
    notes.push_back(fmt::format(
        "DeepSpeed {} stops in the backward (torch.utils.checkpoint.CheckpointError) at ZeRO-3 with frozen "
        "parameters unless checkpointing is reentrant: "
        "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{\"use_reentrant\": True}}); "
        "0.19.3 needs it no more, and gathers less than earlier releases",
        to_text(training.deepspeed)));
  }
  if (plan.strategy.checkpointing == Checkpointing::full)
    notes.emplace_back(
        "activation checkpointing is the training script's: model.gradient_checkpointing_enable(); "
        "DeepSpeed's own section does nothing for Hugging Face models");
  if (plan.strategy.checkpointing == Checkpointing::selective)
    notes.emplace_back(
        "selective checkpointing is the training script's: torch.utils.checkpoint with a policy that "
        "saves matrix products and attention");
}

void note_optimizer(const Training& training, Notes& notes) {
  const std::string_view name = spec(training.optimizer).bitsandbytes_class;
  if (name.empty()) return;
  notes.push_back(
      fmt::format("the training script makes the optimizer (bitsandbytes.optim.{}) and hands it to "
                  "deepspeed.initialize: DeepSpeed has none of its kind",
                  name));
}

void note_limits(const Plan& plan, const Training& training, const std::string& architecture, Notes& notes) {
  const Strategy& s = plan.strategy;
  if (is_16_bit(training) && !training.master_weights && !can_drop_master(training, s))
    notes.push_back(fmt::format(
        "DeepSpeed {} keeps fp32 master weights at stage {} with {} and {}: no setting turns them off",
        to_text(training.deepspeed), s.zero_stage, to_name(training.precision), to_name(training.optimizer)));
  if (s.zero_stage == 0 && s.zero.fp32_gradient_accumulation && is_16_bit(training))
    notes.emplace_back(
        "DeepSpeed stops at fp32 accumulation of 16-bit gradients without ZeRO: it is left out");
  if (s.layout.sequence > 1) {
    notes.push_back(fmt::format(
        "sequence parallelism is the training script's: TrainingArguments(parallelism_config="
        "ParallelismConfig(sp_size={}, sp_backend=\"deepspeed\", dp_shard_size={}, sp_handler="
        "DeepSpeedSequenceParallelConfig(sp_seq_length_is_variable=True, sp_attn_implementation=\"{}\")))",
        s.layout.sequence, s.layout.shard, ulysses_attention(training.attention)));
    notes.emplace_back(
        "every batch needs position_ids and samples whose length sequence parallelism divides; "
        "train_batch_size is left out: accelerate works it out");
  }
  if (s.experts.enabled && divides_groups(s.zero_stage))
    notes.emplace_back(
        "expert parallelism at stages 1 and 2 needs the \"optimizer\" section: with an optimizer of the "
        "script's DeepSpeed 0.19.8 stops with \"The model has moe layers, but None of the param groups are "
        "marked as MoE\"");
  const auto preset = s.experts.enabled ? expert_preset_of(architecture) : std::nullopt;
  if (preset && breaks_with_recorders(*preset))
    notes.emplace_back(
        "transformers 5.23.0 and DeepSpeed 0.19.8 do not go together for this model (TypeError: "
        "_CanRecordRegistry.get() takes 2 positional arguments but 3 were given): take transformers 5.22");
  if (s.long_context.tiles())
    notes.emplace_back(
        "tiles are code, not settings: deepspeed.runtime.sequence_parallel.ulysses_sp.TiledMLP and "
        "TiledFusedLogitsLoss in the place of the model's forward (ArcticTraining: tiled_mlp_compute)");
  if (s.long_context.checkpoint_offload == CheckpointOffload::host)
    notes.emplace_back(
        "checkpoints on the host are code: torch.utils.checkpoint.CheckpointFunction is replaced by one that "
        "keeps its first tensor there, with use_reentrant=True (ArcticTraining: "
        "activation_checkpoint_cpu_offload)");
  if (s.long_context.checkpoint_offload == CheckpointOffload::pinned)
    notes.emplace_back(
        "checkpoints on the host are code: forward and backward run inside "
        "deepspeed.runtime.activation_checkpointing.offload_activations."
        "get_checkpoint_hidden_states_offloading_ctx_manager(); activation_checkpointing.cpu_checkpointing "
        "does not reach Hugging Face models");
  if (s.layout.tensor > 1)
    notes.emplace_back(
        "train_batch_size is left out under AutoTP: DeepSpeed works it out, and without an mpu it counts "
        "the tensor-parallel ranks too");
}

/// Returns the config for the newest release.
Json newest_config(const Plan& plan, const Question& question, const DsConfigOptions& options) {
  const Inputs in{plan, question, options};
  Json config = Json::object();
  add_batch(config, in);
  add_precision(config, in);
  add_accumulation(config, in);
  add_optimizer(config, in);
  add_zero(config, in);
  if (plan.strategy.layout.tensor > 1)
    config["tensor_parallel"] = {{"autotp_size", plan.strategy.layout.tensor}};
  add_experts(config, in);
  if (plan.strategy.layout.tensor > 1 && question.training.vocabulary_parallel_head)
    config["tensor_parallel"]["vocab_parallel_lm_head"] = true;
  if (const auto& type = plan.strategy.zero.communication_type)
    config["communication_data_type"] = to_name(*type);
  const ParallelLayout& layout = plan.strategy.layout;
  if (const Precision type = plan.strategy.zero.sequence_communication_type;
      layout.sequence > 1 && type != Precision::fp32)
    config["seq_parallel_communication_data_type"] = to_name(type);
  add_disk(config, in);
  return config;
}

}  // namespace

Json ds_config(const Plan& plan, const Question& question, const DsConfigOptions& options) {
  Json config = newest_config(plan, question, options);
  static_cast<void>(fit_to_release(config, question.training.deepspeed));
  return config;
}

Json ds_config(const Plan& plan, const Question& question, ConfigStyle style) {
  return ds_config(plan, question, DsConfigOptions{.style = style, .nvme_path = DsConfigOptions{}.nvme_path});
}

namespace {

/// Source: peft 0.21 docs accelerate/deepspeed (ZeRO-3 with QLoRA); transformers 5.23 modeling_utils.py
/// get_init_context.
void note_packed(const Plan& plan, const Question& question, Notes& notes) {
  if (plan.strategy.zero_stage != 3 || !shards_packed(question.training)) return;
  notes.push_back(packed_loading(question.training) +
                  "; in accelerate's config zero3_init_flag: true and zero3_save_16bit_model: true");
  notes.emplace_back(
      "transformers makes a quantised model without zero.Init: each rank holds the whole packed model before "
      "DeepSpeed shards it, which the plan counts; quant states are never sharded");
}

}  // namespace

std::vector<std::string> ds_config_notes(const Plan& plan, const Question& question) {
  Notes notes;
  note_packed(plan, question, notes);
  note_checkpointing(plan, question.training, notes);
  note_optimizer(question.training, notes);
  note_limits(plan, question.training, question.model.shape.architecture, notes);
  Json config = newest_config(plan, question, {});
  for (std::string& lost : fit_to_release(config, question.training.deepspeed))
    notes.push_back(std::move(lost));
  return notes;
}

}  // namespace zplan
