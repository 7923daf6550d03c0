#pragma once
// `zplan lint`: what is wrong with a DeepSpeed config.

#include <ostream>

#include "cli/document/text.h"
#include "cli/environment.h"
#include "cli/options/options.h"

namespace zplan {

/// Reads the files of options.words, repairs them where --fix or --emit asks for it, and writes the report to
/// `out` (with --emit - the repaired file, and the report to `err`). Returns kNothingFits where errors
/// remain, kFits otherwise. Throws InputError for a file that cannot be read or is no JSON, before anything
/// is written.
[[nodiscard]] int lint_command(const Options& options, const Environment& environment, const Style& style,
                               std::ostream& out, std::ostream& err);

}  // namespace zplan
