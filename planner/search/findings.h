#pragma once
// Findings about a plan, some of which need further plans: the GPUs on which it would fit.

#include <cstdint>
#include <optional>

#include "planner/explain/why.h"

namespace zplan {

class PlanContext;
struct Question;

/// Returns the findings about `plan`, which outlives them and is one of `question` and `context`.
[[nodiscard]] Findings findings_of(const Plan& plan, const Question& question, PlanContext& context);

/// Returns the fewest GPUs on which the strategy fits, all else equal; nothing where up to `most` do not
/// suffice.
[[nodiscard]] std::optional<std::int64_t> fewest_gpus(const Plan& plan, const Question& question,
                                                      PlanContext& context, std::int64_t most);

/// Returns the memory, as nvidia-smi totals it, of the smallest GPU on which the plan fits with the headroom.
[[nodiscard]] Bytes smallest_gpu(const Plan& plan, const Question& question);

}  // namespace zplan
