#pragma once
// A recorded model's micro-step as a tape.

#include <optional>
#include <string>

#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"

namespace zplan {

/// Why the model's recording does not hold a micro-step trained so; nothing where it does, or where the model
/// is not a recorded one.
[[nodiscard]] std::optional<std::string> why_not_recorded(const Model& model, const Training& training,
                                                          const Strategy& strategy);

/// The tape of one micro-step of a recorded model. Throws std::logic_error where why_not_recorded says
/// something.
[[nodiscard]] Tape recorded_tape(const Model& model, const Training& training, const Strategy& strategy);

}  // namespace zplan
