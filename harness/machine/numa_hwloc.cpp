#include <hwloc.h>

#include <algorithm>
#include <memory>

#include "harness/machine/numa.h"

namespace zplan::bench {

int numa_node_count() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return 0;
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> freed(topology,
                                                                                 &hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) return 0;
  return std::max(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), 0);
}

}  // namespace zplan::bench
