#pragma once
// Reads how a recorded micro-step of tests/reference/{tape,loads} was run.

#include "models/base/json_reader.h"
#include "models/config.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/question/strategy.h"

namespace zplan::testing {

inline Training training_of(const Json& row) {
  Training training;
  const bool deepspeed = row.contains("zero_stage") || row.contains("tensor_parallel");
  training.framework = deepspeed ? Framework::deepspeed : Framework::torch;
  training.attention = parse_name<Attention>("attention", row["attention"].get<std::string>());
  training.sequence_length = row["sequence"];
  training.master_weights = row.value("autocast", false);
  if (row.value("fp32", false)) training.precision = Precision::fp32;
  training.reentrant_checkpointing = row.value("checkpointing", "") == "reentrant";
  training.padding_mask = row.value("padding_mask", false);
  training.keeps_cache = row.value("keeps_cache", false);
  training.fp32_adapters = row.value("fp32_adapters", true);
  training.lora_dropout = row.value("lora_dropout", 0.0);
  training.dora = row.value("dora", false);
  choose_kernels(training.modules, "kernels", row.value("kernels", "torch"));
  if (row.contains("lora")) {
    training.method = Method::lora;
    training.lora_targets.modules = {row["lora"].get<std::string>()};
  }
  if (row.contains("quantization")) {
    training.method = Method::qlora;
    training.quantization = parse_name<Quantization>("quantization", row["quantization"].get<std::string>());
    training.prepares_kbit_training = row.value("prepares_kbit_training", false);
    training.autocast = row.value("autocast", false);
  }
  return training;
}

inline Strategy strategy_of(const Json& row) {
  Strategy strategy;
  strategy.micro_batch_size = row["batch"];
  strategy.zero_stage = row.value("zero_stage", 0);
  strategy.layout.tensor = row.value("tensor_parallel", 1);
  strategy.checkpointing = row.contains("checkpointing") ? Checkpointing::full : Checkpointing::none;
  return strategy;
}

/// The tape of that step.
inline Tape tape_of(const Json& row) {
  const Model model = read_config(JsonReader(row["config"], "recorded model"));
  return record_tape(model, training_of(row), strategy_of(row));
}

}  // namespace zplan::testing
