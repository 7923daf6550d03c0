#pragma once
// `zplan fit`: the most or the least of one thing that fits, and what helps against an out-of-memory error.

#include <ostream>
#include <string>
#include <vector>

#include "cli/document/text.h"
#include "cli/environment.h"
#include "cli/options/options.h"

namespace zplan {

/// Writes the report to `out`; returns the exit status: 0 where there is an answer, 1 where nothing fits.
[[nodiscard]] int fit_command(const Options& options, const std::vector<std::string>& arguments,
                              const Environment& environment, const Style& style, std::ostream& out);

}  // namespace zplan
