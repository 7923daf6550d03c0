#pragma once
// What hwloc knows beside /proc and /sys.

#include <string>

namespace zplan::bench {

/// NUMA nodes of this host; 0 where zplan was built without hwloc, or it cannot say. Without /sys hwloc takes
/// the whole host for one.
[[nodiscard]] int numa_node_count();

}  // namespace zplan::bench
