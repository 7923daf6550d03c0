#pragma once
// `zplan check`: predictions against what was measured.

#include <ostream>

#include "cli/document/text.h"
#include "cli/environment.h"
#include "cli/options/options.h"

namespace zplan {

struct CheckReport;

/// Everything that the files and folders of options.words are judged by; what was passed over goes to `err`.
/// Throws as check_command does.
[[nodiscard]] CheckReport check_report(const Options& options, const Environment& environment,
                                       std::ostream& err);

/// Reads the files and folders of options.words, writes the report to `out` and what was passed over to
/// `err`. Returns kFits, or kNothingFits where --tolerance does not hold. Throws InputError for a file that
/// is named but no measurement, for a broken one, and for a log whose plan the options do not say.
[[nodiscard]] int check_command(const Options& options, const Environment& environment, const Style& style,
                                std::ostream& out, std::ostream& err);

}  // namespace zplan
