#pragma once

#include <array>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "planner/simulation/host_tally.h"
#include "planner/simulation/run.h"

namespace zplan {

class Cards;

/// Memory of one plan on the worst rank.
struct MemoryPlan {
  Peak peak;  ///< of the steady step: device bytes at the worst moment, CUDA context and NCCL included
  std::array<PhasePeak, kPhases> phases{};  ///< of the steady step, inside PyTorch's allocator
  PhasePeak initialisation;                 ///< until the first step, on the GPU in question
  Bytes peak_allocated;  ///< what torch.cuda.max_memory_allocated() would say of the steady step
  Bytes peak_reserved;   ///< max_memory_reserved() of the whole run on a GPU with memory to spare
  /// The smallest device on which the run completes: PyTorch's allocator under pressure, plus what lies
  /// outside it.
  Bytes required;
  /// GPUs that lie between: DeepSpeed takes there for free what a CUDA context and NCCL have, flattens
  /// weights on the device, and runs out of memory. Smaller ones and larger ones start. Of a GPU among them
  /// `required` says from where on larger ones do.
  CardRange failing_start;
  Bytes required_low;   ///< were memory packed without a gap
  Bytes required_high;  ///< were nothing cached ever given back
  SteadyState steady;
  HostMemory host;               ///< per node
  std::vector<Moment> timeline;  ///< live bytes in PyTorch's allocator over the steady step
  std::vector<Bytes>
      saved_by_layer;  ///< what each layer keeps of a micro-batch from its forward to its backward
};

/// Ranks of the NCCL communicators that a strategy opens on one rank (of one rank: none is opened): the
/// world's, and the tensor-parallel group's beside data parallelism; with replicas, of those who share shards
/// and of those who hold the same one; ZeRO++'s second shards', and those of quantised gradients within a
/// node and between nodes.
[[nodiscard]] std::vector<std::int64_t> communicators(const Strategy& strategy, std::int64_t gpus_per_node);

/// Device memory outside PyTorch's allocator: the CUDA context and NCCL's buffers.
[[nodiscard]] Bytes outside_allocator(const Strategy& strategy, std::string_view compute_capability,
                                      std::int64_t gpus_per_node);

/// What offload keeps on the host and on disk, per node.
/// Source: DeepSpeed 0.19.8 stage_1_and_2.py, stage3.py, swap_tensor/; sizes measured (docs/host-memory.md).
[[nodiscard]] HostMemory host_memory(const StepInputs& inputs, std::int64_t ranks_per_node);

/// Blocks that one rank's offload takes from torch's pinned allocator, rounded as it rounds them.
[[nodiscard]] std::vector<Bytes> pinned_blocks(const StepInputs& inputs);

/// A plan by a run of simulate_live, at a twentieth of the cost: the peaks are exact but for the allocator's
/// rounding, and `required` is at its low end.
[[nodiscard]] MemoryPlan plan_live_memory(const RunInputs& inputs, const RunResult& live,
                                          const Cluster& cluster);

/// The whole plan, by a run of simulate: `required` is Cards::smallest().
[[nodiscard]] MemoryPlan plan_memory(const RunInputs& inputs, const RunResult& run, const Cluster& cluster,
                                     Cards& cards);

}  // namespace zplan
