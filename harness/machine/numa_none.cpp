#include "harness/machine/numa.h"

namespace zplan::bench {

int numa_node_count() { return 0; }

}  // namespace zplan::bench
