#pragma once
// A plan's findings as sentences. Nothing is planned here.

#include <string>
#include <string_view>
#include <vector>

#include "models/base/format.h"
#include "planner/moments/moments.h"
#include "planner/search/findings.h"

namespace zplan {

/// Why a plan fits or does not, what fills the GPU, and what would make it fit: one sentence each.
[[nodiscard]] std::vector<std::string> why(const Plan& plan, const Findings& findings, ByteUnit unit);

/// A moment of a run as sentences name it: "saving the model".
[[nodiscard]] std::string_view moment_words(RunMoment moment);
/// "42 min", "3.4 h", "2.1 days"
[[nodiscard]] std::string duration_text(Seconds time);
/// Money, GPU-hours: "0.52", "1840".
[[nodiscard]] std::string amount_text(double amount);

}  // namespace zplan
