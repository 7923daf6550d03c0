#pragma once

#include "planner/model_trace/tape.h"
#include "planner/strategy.h"

namespace zplan {

/// The tape of one micro-step of `model`, trained so, on one tensor-parallel rank and rank `context_rank` of
/// a ring.
[[nodiscard]] Tape record_tape(const Model& model, const Training& training, const Strategy& strategy,
                               std::int64_t context_rank = 0);

}  // namespace zplan
