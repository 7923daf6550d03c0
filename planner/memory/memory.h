#pragma once

#include <optional>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "planner/memory/step_timeline.h"

namespace zplan {

/// Host memory and disk of one node.
struct HostMemory {
  Bytes total;   ///< what DeepSpeed's offload takes of host memory
  Bytes pinned;  ///< of that, page-locked: each block rounded up to a power of two, as torch's pinned
                 ///< allocator does
  Bytes nvme;    ///< on disk
  bool operator==(const HostMemory&) const = default;
};

/// Memory of one plan on the worst rank.
struct MemoryPlan {
  Peak peak;                          ///< device bytes at the worst moment, CUDA context and NCCL included
  Bytes peak_allocated;               ///< what torch.cuda.max_memory_allocated() would say
  Bytes peak_reserved;                ///< max_memory_reserved() on a card with room to spare
  Bytes required;                     ///< the smallest device on which the step runs, expected
  Bytes required_low, required_high;  ///< with the least and the most allocator slack seen
  SteadyState steady;
  HostMemory host;               ///< per node
  std::vector<Moment> timeline;  ///< live bytes in PyTorch's allocator
};

/// NCCL communicators that a strategy opens on one rank: the world's, and the tensor-parallel group's.
[[nodiscard]] std::int64_t communicators(const Strategy& strategy);

/// What offload keeps on the host and on disk, per node.
/// Source: DeepSpeed 0.19.8 stage_1_and_2.py, stage3.py, swap_tensor/; sizes measured (docs/host-memory.md).
[[nodiscard]] HostMemory host_memory(const StepInputs& inputs, std::int64_t ranks_per_node);

/// Blocks that one rank's offload takes from torch's pinned allocator, rounded as it rounds them.
[[nodiscard]] std::vector<Bytes> pinned_blocks(const StepInputs& inputs);

[[nodiscard]] MemoryPlan plan_memory(const StepInputs& inputs, const Cluster& cluster);

}  // namespace zplan
