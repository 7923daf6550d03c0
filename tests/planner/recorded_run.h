#pragma once
// One row of tests/reference/deepspeed_runs/held.json as the planner's own types.

#include <ostream>
#include <vector>

#include "tests/planner/support.h"

namespace zplan::testing {

struct RecordedRun {
  std::string name;
  Json row;
  Model model;
  Training training;
  Strategy strategy;
};
inline void PrintTo(const RecordedRun& run, std::ostream* out) { *out << run.name; }

inline Training recorded_training(const Json& row) {
  Training training;
  training.precision = *from_name<Precision>(row["precision"].get<std::string>());
  training.sequence_length = row["spec"]["seq"].get<std::int64_t>();
  if (row["spec"].contains("lora")) {
    training.method = Method::lora;
    training.lora_rank = row["spec"]["lora"].get<std::int64_t>();
  }
  return training;
}

inline Strategy recorded_strategy(const Json& row) {
  const Json& zero = row["zero"];
  const auto elements = [&](const char* key) { return Elements(zero[key].get<std::int64_t>()); };
  Strategy s;
  s.zero_stage = zero["stage"].get<int>();
  s.tensor_parallel = row["spec"].value("tp", std::int64_t{1});
  s.data_parallel = row["spec"]["world"].get<std::int64_t>() / s.tensor_parallel;
  s.offload_optimizer = row["offload_optimizer"].get<bool>() ? OffloadDevice::cpu : OffloadDevice::none;
  s.offload_parameters = row["offload_parameters"].get<bool>() ? OffloadDevice::cpu : OffloadDevice::none;
  s.checkpointing = row["spec"].value("grad_ckpt", false) ? Checkpointing::full : Checkpointing::none;
  s.micro_batch_size = row["spec"]["batch"].get<std::int64_t>();
  s.gradient_accumulation_steps = row["gradient_accumulation_steps"].get<std::int64_t>();
  s.zero.reduce_bucket_size = elements("reduce_bucket_size");
  s.zero.prefetch_bucket_size = elements("prefetch_bucket_size");
  s.zero.persistence_threshold = elements("param_persistence_threshold");
  s.zero.max_live_parameters = elements("max_live_parameters");
  s.zero.max_reuse_distance = elements("max_reuse_distance");
  s.zero.sub_group_size = elements("sub_group_size");
  if (zero["overlap_comm"].is_boolean()) s.zero.overlap_comm = zero["overlap_comm"].get<bool>();
  s.zero.parameter_alignment = zero["parameter_alignment"].get<bool>();
  s.zero.fp32_gradient_accumulation = row["gradient_accumulation_dtype"] == "fp32";
  return s;
}

inline std::vector<RecordedRun> recorded_runs() {
  std::vector<RecordedRun> runs;
  for (const Json& row : test_json("reference/deepspeed_runs/held.json"))
    runs.push_back({row["name"].get<std::string>(), row, tiny_llama(row["model"]), recorded_training(row),
                    recorded_strategy(row)});
  return runs;
}

}  // namespace zplan::testing
