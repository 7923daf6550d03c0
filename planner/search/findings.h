#pragma once
// What a plan means for its question, and what would suffice where it does not fit: found by planning.

#include <cstdint>
#include <optional>

#include "planner/explain/why.h"

namespace zplan {

class PlanContext;
struct Question;

/// `plan`, which outlives them, is one of `question`, and of `context`.
[[nodiscard]] Findings findings_of(const Plan& plan, const Question& question, PlanContext& context);

/// The fewest GPUs (same nodes' size, all else equal) on which the strategy fits, up to `most`; nothing where
/// none do.
[[nodiscard]] std::optional<std::int64_t> fewest_gpus(const Plan& plan, const Question& question,
                                                      PlanContext& context, std::int64_t most);

/// The smallest GPU (per GPU, as nvidia-smi totals it) on which the plan fits with the headroom.
[[nodiscard]] Bytes smallest_gpu(const Plan& plan, const Question& question);

}  // namespace zplan
