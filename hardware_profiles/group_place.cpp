#include "hardware_profiles/group_place.h"

#include <algorithm>

namespace zplan {

GroupPlace place_group(const Cluster& cluster, std::int64_t ranks, std::int64_t stride) {
  const std::int64_t each = std::max<std::int64_t>(1, cluster.gpus_per_node);
  const std::int64_t span = ranks * stride;
  const bool inside = cluster.nodes == 1 || (span <= each && each % span == 0);
  if (inside) return {.ranks = ranks, .nodes = 1, .side_by_side = std::max<std::int64_t>(1, each / ranks)};
  const std::int64_t held = std::clamp<std::int64_t>(each / stride, 1, ranks);
  const std::int64_t nodes = std::max<std::int64_t>(2, (ranks + held - 1) / held);
  return {.ranks = ranks, .nodes = std::min(nodes, ranks), .side_by_side = std::min(each, stride)};
}

GroupPlace place_of_all(const Cluster& cluster) {
  return {.ranks = cluster.gpus, .nodes = cluster.nodes, .side_by_side = 1};
}

}  // namespace zplan
