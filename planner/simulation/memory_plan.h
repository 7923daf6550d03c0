#pragma once
// Memory figures of a plan.

#include <array>
#include <vector>

#include "planner/sharding/shard.h"
#include "planner/simulation/host_tally.h"
#include "planner/simulation/timeline.h"

namespace zplan {

/// GPUs by their usable memory, `until` not among them.
struct GpuRange {
  Bytes from, until;
  [[nodiscard]] bool contains(Bytes gpu) const { return gpu >= from && gpu < until; }
};

/// Memory of one class of ranks.
struct MemoryPlan {
  Peak peak;  ///< of the steady step: device bytes at the worst moment, CUDA context and NCCL included
  std::array<PhasePeak, kPhases> phases{};  ///< of the steady step, inside PyTorch's allocator
  PhasePeak initialisation;                 ///< until the first step, on the GPU in question
  Bytes peak_allocated;  ///< what torch.cuda.max_memory_allocated() would say of the steady step
  Bytes peak_reserved;   ///< max_memory_reserved() of the whole run on a GPU with memory to spare
  /// The smallest device on which the run completes: PyTorch's allocator under pressure, plus what lies
  /// outside it.
  Bytes required;
  /// GPUs on which the run fails as it starts, while it starts on smaller and on larger ones: DeepSpeed
  /// counts memory of the CUDA context and of NCCL as free, flattens weights on the device, and runs out of
  /// memory. Where the cluster's GPU is among them, `required` is at least `until`, from which on larger GPUs
  /// start.
  GpuRange failing_start;
  Bytes required_low;   ///< were memory packed without a gap
  Bytes required_high;  ///< were nothing cached ever given back
  SteadyState steady;
  HostMemory host;               ///< per node
  std::vector<Moment> timeline;  ///< live bytes in PyTorch's allocator over the steady step
  std::vector<Bytes>
      saved_by_layer;  ///< what each layer keeps of a micro-batch from its forward to its backward
};

}  // namespace zplan
