#pragma once
// What hwloc knows beside /proc and /sys.

#include <string>

namespace zplan::bench {

/// NUMA nodes of this host; 0 where zplan was built without hwloc, or it cannot say.
[[nodiscard]] int numa_node_count();

}  // namespace zplan::bench
