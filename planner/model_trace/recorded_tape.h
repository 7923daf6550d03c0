#pragma once
// Tapes of models without a program of their own: recorded ones, and those that another model stands for.

#include <optional>
#include <string>

#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"

namespace zplan {

/// True if another model's micro-step stands for this training's: none was recorded, or not in this way.
[[nodiscard]] bool is_by_analogy(const Model& model, const Training& training, const Strategy& strategy);

/// Returns why the recording has no micro-step for this training; empty where it has one, where the model is
/// not a recorded one, or where an analogue's stands for it.
[[nodiscard]] std::optional<std::string> why_not_recorded(const Model& model, const Training& training,
                                                          const Strategy& strategy);

/// Returns the tape of one micro-step of a recorded model. Throws std::logic_error where it was not
/// recorded in this way.
[[nodiscard]] Tape recorded_tape(const Model& model, const Training& training, const Strategy& strategy);

/// Returns a tape for a model whose modules are unknown: activations of its analogue, gradients of its own
/// parameters. Each layer is one module, which needs its parameters together; its gradients come at the end
/// of its backward.
[[nodiscard]] Tape analogous_tape(const Model& model, const Tape& analogue, const Training& training);

}  // namespace zplan
