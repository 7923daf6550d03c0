#pragma once
// zplan compare FILE.zplan: the scenarios of a file side by side, as the window shows them.

#include <ostream>

#include "cli/document/text.h"
#include "cli/environment.h"
#include "cli/options/options.h"

namespace zplan {

/// Whether `compare` is asked for a file of scenarios.
[[nodiscard]] bool names_scenarios(const Options& options);

/// 0 where every plan that is shown fits, else 1. Throws InputError where a file or a scenario of it cannot
/// be read or planned, naming its place, before anything is written.
[[nodiscard]] int scenario_command(const Options& options, const Environment& environment, const Style& style,
                                   std::ostream& out, std::ostream& err);

}  // namespace zplan
