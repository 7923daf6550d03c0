#pragma once
// The micro-step of a recorded model as a tape.

#include <optional>
#include <string>

#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"

namespace zplan {

/// Returns why the recording has no micro-step for this training; empty where it has one, or where the model
/// is not a recorded one.
[[nodiscard]] std::optional<std::string> why_not_recorded(const Model& model, const Training& training,
                                                          const Strategy& strategy);

/// Returns the tape of one micro-step of a recorded model. Throws std::logic_error where why_not_recorded
/// gives a reason.
[[nodiscard]] Tape recorded_tape(const Model& model, const Training& training, const Strategy& strategy);

}  // namespace zplan
