#pragma once
// Headroom is the part of memory that plans leave free.

#include "hardware_profiles/cluster.h"

namespace zplan {

/// The share of a GPU that is left free beyond everything the plan counts.
struct Headroom {
  double fraction{0.10};
};

/// Returns `whole` less the headroom.
[[nodiscard]] inline Bytes less(Bytes whole, Headroom headroom) {
  return whole - Bytes(static_cast<std::int64_t>(headroom.fraction * static_cast<double>(whole.value)));
}
/// Returns the bytes of a GPU that a plan may take: usable memory less the headroom.
[[nodiscard]] inline Bytes available(const Cluster& cluster, Headroom headroom) {
  return less(cluster.usable_memory, headroom);
}
/// Returns the bytes of a node's host memory that a plan may take. The headroom is for the system, the
/// training processes and the data loader.
[[nodiscard]] inline Bytes available_on_host(const Cluster& cluster, Headroom headroom) {
  return less(cluster.host_memory_per_node, headroom);
}

}  // namespace zplan
