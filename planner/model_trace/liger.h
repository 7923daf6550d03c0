#pragma once
// Liger-Kernel's functions in the places of transformers' operators: what each makes and keeps, and which
// gradients it writes over what it was given. Source: Liger-Kernel 0.8.5 ops/{rms_norm,rope,swiglu}.py,
// transformers/monkey_patch.py.

#include "planner/model_trace/attention.h"

namespace zplan::symbolic {

/// RMSNorm: keeps its input and, in fp32, a reciprocal root for each row; the gradient of its input lies in
/// that of its output. Gemma 2 and 3 need the latter for their residual: there it is made anew.
[[nodiscard]] Tensor liger_rms_norm(Program& p, const Tensor& weight, const Tensor& x, bool in_place);

/// Queries and keys are turned where they lie, and so are their gradients.
void liger_rotate(Program& p, Heads& heads);

/// silu(gate) · up: keeps both, and writes their gradients over them.
[[nodiscard]] Tensor liger_silu_mul(Program& p, const Tensor& gate, const Tensor& up);

}  // namespace zplan::symbolic
