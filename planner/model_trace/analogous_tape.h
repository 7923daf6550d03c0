#pragma once

#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"

namespace zplan {

/// The tape of a model whose micro-step nobody knows: activations of its analogue's, gradients of its own
/// parameters. Each layer's gradients come where its backward ends, and each layer is one module, whose
/// parameters are needed together.
[[nodiscard]] Tape analogous_tape(const Model& model, const Tape& analogue, const Training& training);

}  // namespace zplan
