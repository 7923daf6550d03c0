#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/search/search.h"

namespace zplan {

/// Why a plan fits or does not, what fills the GPU, and what would make it fit: one sentence each, from the
/// plan's own figures.
[[nodiscard]] std::vector<std::string> why(const Plan& plan, const Question& question, PlanContext& context);

/// A moment of a run as sentences name it: "saving the model".
[[nodiscard]] std::string_view moment_words(RunMoment moment);
/// "42 min", "3.4 h", "2.1 days"
[[nodiscard]] std::string duration_text(Seconds time);
/// Money, GPU-hours: "0.52", "1840".
[[nodiscard]] std::string amount_text(double amount);

/// The fewest GPUs (same nodes' size, all else equal) on which the strategy fits, up to `most`; nothing where
/// none do.
[[nodiscard]] std::optional<std::int64_t> fewest_gpus(const Plan& plan, const Question& question,
                                                      PlanContext& context, std::int64_t most);

/// The smallest GPU (per GPU, as nvidia-smi totals it) on which the plan fits with the headroom.
[[nodiscard]] Bytes smallest_card(const Plan& plan, const Question& question);

}  // namespace zplan
