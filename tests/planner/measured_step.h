#pragma once
// One row of tests/reference/steps/steps.json as the planner's own types.

#include "planner/memory/step_timeline.h"
#include "tests/planner/support.h"

namespace zplan::testing {

inline Training measured_training(const Json& options) {
  Training training;
  training.precision = *from_name<Precision>(options["precision"].get<std::string>());
  training.sequence_length = options["seq"].get<std::int64_t>();
  if (options["method"] == "lora") {
    training.method = Method::lora;
    training.lora_rank = options["lora_rank"].get<std::int64_t>();
    const Json& targets = options["lora_targets"];
    training.lora_targets.modules = targets.is_string() ? std::vector<std::string>{targets.get<std::string>()}
                                                        : targets.get<std::vector<std::string>>();
  }
  return training;
}

inline void set_elements(const Json& zero, const char* key, Elements& field) {
  if (zero.contains(key)) field = Elements(static_cast<std::int64_t>(zero[key].get<double>()));
}

inline Strategy measured_strategy(const Json& row) {
  const Json& options = row["options"];
  const Json& zero = row["zero"];
  const std::string offload = options.value("offload", std::string());
  Strategy s;
  s.zero_stage = options["zero"].get<int>();
  s.tensor_parallel = options["tensor_parallel"].get<std::int64_t>();
  s.data_parallel = options["gpus"].get<std::int64_t>() / s.tensor_parallel;
  s.micro_batch_size = options["micro_batch"].get<std::int64_t>();
  s.gradient_accumulation_steps = options["grad_accum"].get<std::int64_t>();
  s.checkpointing = options["checkpointing"] == "full" ? Checkpointing::full : Checkpointing::none;
  if (offload.find("optimizer") != std::string::npos) s.offload_optimizer = OffloadDevice::cpu;
  if (offload.find("param") != std::string::npos) s.offload_parameters = OffloadDevice::cpu;
  set_elements(zero, "reduce_bucket_size", s.zero.reduce_bucket_size);
  set_elements(zero, "stage3_prefetch_bucket_size", s.zero.prefetch_bucket_size);
  set_elements(zero, "stage3_param_persistence_threshold", s.zero.persistence_threshold);
  set_elements(zero, "stage3_max_live_parameters", s.zero.max_live_parameters);
  set_elements(zero, "stage3_max_reuse_distance", s.zero.max_reuse_distance);
  set_elements(zero, "sub_group_size", s.zero.sub_group_size);
  if (zero.contains("overlap_comm")) s.zero.overlap_comm = zero["overlap_comm"].get<bool>();
  s.zero.fp32_gradient_accumulation = options.value("grad_accum_dtype", std::string()) == "fp32";
  return s;
}

/// The measured step, with everything that its inputs refer to.
struct MeasuredStep {
  explicit MeasuredStep(const Json& row)
      : model(read_config(JsonReader(row["config"], "measured model"))),
        training(measured_training(row["options"])),
        strategy(measured_strategy(row)),
        rank(rank_model(model, training, strategy.tensor_parallel)),
        shard(make_shard(rank, training, strategy)),
        slice(strategy.zero_stage == 1 || strategy.zero_stage == 2 ? worst_slice(rank, training, strategy)
                                                                   : Slice{}),
        saved(activations(model, training, strategy)) {}

  [[nodiscard]] StepInputs inputs() const { return {model, training, strategy, rank, shard, slice, saved}; }

  Model model;
  Training training;
  Strategy strategy;
  RankModel rank;
  Shard shard;
  Slice slice;
  Activations saved;
};

}  // namespace zplan::testing
