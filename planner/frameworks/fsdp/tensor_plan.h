#pragma once
// FSDP2 beside tensor parallelism, as transformers shards a model that it loads with a DistributedConfig:
// layers are divided among tensor-parallel ranks by the architecture's tp_plan, then fully_shard divides each
// rank's part. Source: transformers 5.23 distributed/{mixin,tensor_parallel,fsdp}.py,
// models/*/configuration_*.py.

#include "planner/question/framework.h"

namespace zplan {

/// Adds why a strategy with several tensor-parallel ranks does not train, or is not planned.
void check_tensor_plan(const Model& model, const Training& training, const Strategy& s, Reasons& reasons);
/// Returns what surprises under such a strategy.
[[nodiscard]] Reasons tensor_plan_warnings(const Strategy& s);

}  // namespace zplan
