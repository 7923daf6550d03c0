#pragma once

#include "planner/simulation/host_tally.h"
#include "planner/simulation/run.h"

namespace zplan {

/// Adds the memory that one rank's offload holds on the host and on disk.
/// Source: DeepSpeed 0.19.8 stage_1_and_2.py, stage3.py, swap_tensor/; sizes measured (docs/host-memory.md).
void offload_deepspeed(const StepInputs& inputs, HostTally& host);

}  // namespace zplan
