#pragma once
// Recorded calls of torch.distributed as the planner's collectives.

#include "models/base/json_reader.h"
#include "planner/check/case.h"

namespace zplan::check {

/// The calls of a list of {op, dtype, group, phase, count, elements in, elements out}; `in` and `out` name
/// the last two. Calls of a group of one are left out. Phases: what is gathered for the loss belongs to the
/// forward, what is reduced in its backward to the backward.
[[nodiscard]] std::vector<CallTally> read_calls(const JsonReader& list, const char* in, const char* out);
/// The calls of a list in order of issue of {op, dtype, group, phase, n_in, n_out, times}.
[[nodiscard]] std::vector<CallTally> read_sequence(const JsonReader& list);

}  // namespace zplan::check
