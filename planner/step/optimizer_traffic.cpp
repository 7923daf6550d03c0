#include "planner/step/optimizer_traffic.h"

namespace zplan {

Bytes optimizer_traffic(const Strategy& strategy, const Shard& shard) {
  constexpr Bytes kAdam{30};
  return strategy.offload_optimizer == OffloadDevice::none ? shard.optimizer_elements * kAdam : Bytes{};
}

}  // namespace zplan
