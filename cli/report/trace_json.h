#pragma once
// A plan's step in the form of PyTorch's profiler (Kineto), which Perfetto, chrome://tracing and tools for
// such traces read.

#include "models/base/json_reader.h"
#include "planner/plan/step_trace.h"

namespace zplan {

struct Question;

/// Returns the trace: complete events ("ph": "X") in microseconds, a thread for each lane: kernels,
/// collectives and copies of device 0, the host's work under the process.
[[nodiscard]] Json trace_json(const StepTrace& trace, const Plan& plan, const Question& question);

}  // namespace zplan
