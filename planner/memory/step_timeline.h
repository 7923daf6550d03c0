#pragma once
// One optimizer step of DeepSpeed as allocations over its phases, on the worst rank, in the steady state
// (from the second step on, when the optimizer's states exist), at its worst micro-step.

#include <string_view>

#include "planner/activations/activations.h"
#include "planner/memory/timeline.h"
#include "planner/sharding/shard.h"

namespace zplan {

/// What a step's memory is made from; all of it outlives the call.
struct StepInputs {
  const Model& model;
  const Training& training;
  const Strategy& strategy;
  const RankModel& rank;
  const Shard& shard;
  const Slice& slice;  ///< of the worst rank; empty at stages 0 and 3
  const Activations& activations;
};

/// Device memory inside PyTorch's allocator; cuBLAS workspaces included, CUDA context and NCCL not.
[[nodiscard]] Timeline step_timeline(const StepInputs& inputs, std::string_view compute_capability);

}  // namespace zplan
