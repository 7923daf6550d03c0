#pragma once

#include "planner/question/strategy.h"
#include "planner/sharding/shard.h"

namespace zplan {

/// Bytes that one rank's optimizer step reads and writes on the device: gradient 4, master weights 4 + 4, two
/// moments 8 + 8, weight 2 an element that it updates; none where the optimizer is offloaded.
/// Source: fused Adam reads and writes each once.
[[nodiscard]] Bytes optimizer_traffic(const Strategy& strategy, const Shard& shard);

}  // namespace zplan
