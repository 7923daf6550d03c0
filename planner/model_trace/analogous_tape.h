#pragma once

#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"

namespace zplan {

/// Returns a tape for a model whose modules are unknown: activations of its analogue, gradients of its own
/// parameters. Each layer is one module, which needs its parameters together; its gradients come at the end
/// of its backward.
[[nodiscard]] Tape analogous_tape(const Model& model, const Tape& analogue, const Training& training);

}  // namespace zplan
