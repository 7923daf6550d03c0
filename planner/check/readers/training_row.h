#pragma once
// Rows of whole training steps that share `config`, `options` and `ds_config`: steps, capacities, schedules.

#include <optional>
#include <string>

#include "models/base/json_reader.h"
#include "planner/check/case.h"

namespace zplan::check {

/// A row's question, or the reason why there is none.
struct TrainingRow {
  std::string id;
  std::optional<Setup> setup;
  Skip skip;
};

/// Conventions: `framework` "single" is plain PyTorch; FSDP2 with reshard_after_forward is stage 3, without
/// it stage 2; "amp" and "bf16 compute, fp32 shards" are fp32 weights with bf16 products. Runs were made for
/// compute capability 8.0. What the options do not hold but the run's name does (reentrant, no_sync), is read
/// from the name: its parts are "key=value", between bars.
[[nodiscard]] TrainingRow read_training_row(const JsonReader& row);
/// The same of a small mixture's run on CPUs, whose tokens were routed by their values: bf16 with torch's
/// AdamW, samples of 32 tokens, made without zero.Init.
[[nodiscard]] TrainingRow read_routed_row(const JsonReader& row);

}  // namespace zplan::check
