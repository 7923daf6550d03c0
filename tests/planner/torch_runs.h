#pragma once
// Runs of plain PyTorch and FSDP as their reference files describe them.

#include "planner/plan/rank_run.h"
#include "tests/planner/support.h"

namespace zplan::testing {

inline Training torch_training(const Json& row) {
  Training training;
  training.framework = parse_name<Framework>("framework", row.value("framework", std::string("torch")));
  training.method = parse_name<Method>("method", row.value("method", std::string("full")));
  training.optimizer = parse_name<Optimizer>("optimizer", row.value("optimizer", std::string("adamw")));
  training.optimizer_kernel =
      parse_name<OptimizerKernel>("kernel", row.value("optimizer_kernel", std::string("fused")));
  training.master_weights = row.value("master_weights", false);
  training.sequence_length = row["sequence_length"].get<std::int64_t>();
  training.fsdp_reduces_fp32 = row.value("fsdp_reduces_fp32", true);
  training.syncs_each_micro_step = row.value("syncs_each_micro_step", false);
  return training;
}

inline Strategy torch_strategy(const Json& row) {
  Strategy strategy;
  strategy.zero_stage = row["zero_stage"].get<int>();
  strategy.layout.shard = row["data_parallel"].get<std::int64_t>();
  strategy.micro_batch_size = row["micro_batch_size"].get<std::int64_t>();
  strategy.gradient_accumulation_steps = row["gradient_accumulation_steps"].get<std::int64_t>();
  strategy.checkpointing =
      parse_name<Checkpointing>("checkpointing", row["checkpointing"].get<std::string>());
  strategy.offload_parameters =
      parse_name<OffloadDevice>("offload_parameters", row["offload_parameters"].get<std::string>());
  return strategy;
}

inline RankRun torch_run(const Json& config, const Training& training, const Strategy& strategy) {
  return {read_config(JsonReader(config, "measured model")), training, strategy, {}};
}

}  // namespace zplan::testing
