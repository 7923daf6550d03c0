#pragma once
// What rows of measured training steps share.

#include <vector>

#include "models/base/json_reader.h"
#include "planner/check/case.h"

namespace zplan::check {

/// The planner's phases that a measured one can be. Under tensor parallelism the head is replaced, and the
/// first mark comes behind the loss.
[[nodiscard]] std::vector<Phase> planned_phases(const JsonReader& phase, bool tensor_parallel);

/// Bytes that are known exactly.
[[nodiscard]] MeasuredFigure bytes_figure(Statistic statistic, const JsonReader& value);

}  // namespace zplan::check
