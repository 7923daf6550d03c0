#pragma once
// A plan's memory in the format of torch.cuda.memory._dump_snapshot(), for the tools that show those.

#include <string>

#include "planner/plan/rank_history.h"

namespace zplan {

/// Returns the file: a pickle with "segments" as the last step leaves them, and "device_traces" of device 0
/// from initialisation on, whose frames name module and term, phase, and step. Times count entries.
[[nodiscard]] std::string memory_snapshot(const RankHistory& history, const Plan& plan);

}  // namespace zplan
