#pragma once
// How a group of GPUs that communicate lies on the nodes of a cluster.

#include <cstdint>

#include "hardware_profiles/cluster.h"

namespace zplan {

/// A group, and what shares its way with it.
struct GroupPlace {
  std::int64_t ranks{1};
  std::int64_t nodes{1};         ///< that it spans, with equally many of its ranks on each
  std::int64_t side_by_side{1};  ///< groups like it, itself included, that communicate on the same nodes
  [[nodiscard]] std::int64_t ranks_per_node() const { return (ranks + nodes - 1) / nodes; }
  friend bool operator==(const GroupPlace&, const GroupPlace&) = default;
};

/// Places groups of `ranks` GPUs that are `stride` apart in the order of the cluster's ranks, which fills one
/// node after the other:
///  - tensor-parallel groups: stride 1;
///  - data-parallel groups of all: stride tensor_parallel;
///  - sub-groups of a data-parallel group (hpZ, the sharding groups of HSDP): fewer ranks, the same stride;
///  - groups of the sub-groups' equals (HSDP's replicas): stride sub-group · tensor_parallel.
/// With g GPUs per node, ranks·stride ≤ g lies inside one node, of whose g/ranks groups each is one. Else a
/// node holds max(1, g/stride) of the ranks, and min(g, stride) groups lie side by side on the same nodes.
/// Where the numbers do not divide each other the group that is split is the one that is placed: it is the
/// slowest.
/// Source: torch.distributed and DeepSpeed number ranks node by node; DeepSpeed utils/groups.py and
/// Megatron-LM core/parallel_state.py make tensor-parallel groups of neighbours.
[[nodiscard]] GroupPlace place_group(const Cluster& cluster, std::int64_t ranks, std::int64_t stride = 1);

/// All GPUs of the cluster as one group.
[[nodiscard]] GroupPlace place_of_all(const Cluster& cluster);

}  // namespace zplan
