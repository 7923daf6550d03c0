#pragma once
// `compare`: what each plan differs by from the baseline, for programs.

#include <string_view>
#include <vector>

#include "cli/report/report.h"

namespace zplan {

struct Delta {
  std::string_view name;  ///< "required", "step", …
  std::string_view unit;  ///< "bytes", "seconds"; empty: a number
  double (*value)(const Plan&);
};
/// Memory by part and in all, the host's, what goes over the links, step and tokens per second.
[[nodiscard]] const std::vector<Delta>& deltas();

}  // namespace zplan
