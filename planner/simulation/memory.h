#pragma once
// Makes the MemoryPlan of a run; memory outside PyTorch's allocator; host memory.

#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/simulation/memory_plan.h"

namespace zplan {

class GpuTrials;
struct Cluster;
struct RunInputs;
struct RunResult;
struct StepInputs;
struct Strategy;

/// Returns the sizes of the NCCL communicators that a strategy opens on one rank (of one rank: none is
/// opened): the world's, and the tensor-parallel group's beside data parallelism; with replicas, of those who
/// share shards and of those who hold the same one; ZeRO++'s second shards', and those of quantised gradients
/// within a node and between nodes.
[[nodiscard]] std::vector<std::int64_t> communicators(const Strategy& strategy, std::int64_t gpus_per_node);

/// Returns device memory outside PyTorch's allocator: the CUDA context and NCCL's buffers.
[[nodiscard]] Bytes outside_allocator(const Strategy& strategy, std::string_view compute_capability,
                                      std::int64_t gpus_per_node);

/// Returns the bytes that offload keeps on the host and on disk, in the node that keeps most.
/// Source: DeepSpeed 0.19.8 stage_1_and_2.py, stage3.py, swap_tensor/; sizes measured (docs/host-memory.md).
[[nodiscard]] HostMemory host_memory(const StepInputs& inputs, std::int64_t ranks_per_node);

/// Returns the blocks that one rank's offload takes from torch's pinned allocator, rounded as it rounds them.
[[nodiscard]] std::vector<Bytes> pinned_blocks(const StepInputs& inputs);

/// Returns the plan of a run of simulate_live, at a twentieth of the cost of a whole one: the peaks are exact
/// but for the allocator's rounding, and `required` is at its low end.
[[nodiscard]] MemoryPlan plan_live_memory(const RunInputs& inputs, const RunResult& live,
                                          const Cluster& cluster);

/// Returns the whole plan of a run of simulate: `required` is GpuTrials::smallest(), and at least
/// `required_low`. PlanContext::plan then adjusts it to whether the plan fits.
[[nodiscard]] MemoryPlan plan_memory(const RunInputs& inputs, const RunResult& run, const Cluster& cluster,
                                     GpuTrials& gpus);

}  // namespace zplan
