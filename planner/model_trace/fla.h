#pragma once
// flash-linear-attention's kernel of the gated delta rule.

#include <cstdint>

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

/// DeltaRuleSizes holds the heads that a rank has, and whether queries and keys are normalised inside the
/// kernel; else they come normalised, as many as values.
struct DeltaRuleSizes {
  std::int64_t b{}, s{}, key_heads{}, heads{}, key{}, value{};
  bool norms_inside{true};
  [[nodiscard]] std::int64_t chunks() const { return divide_up(s, kDeltaChunk); }
};

/// chunk_gated_delta_rule in 16 bits. Source: flash-linear-attention 0.6.0 fla/ops/gated_delta_rule/chunk.py,
/// chunk_fwd.py, wy_fast.py, fla/ops/common/{chunk_delta_h,chunk_o}.py, fla/modules/l2norm.py.
[[nodiscard]] Tensor fla_delta_rule(Autograd& torch, const DeltaRuleSizes& k, const DeltaRuleInputs& own);

}  // namespace zplan::symbolic
