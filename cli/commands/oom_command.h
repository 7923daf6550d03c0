#pragma once
// `zplan fit --oom`: an out-of-memory message explained, and what helps.

#include <ostream>
#include <string>
#include <vector>

#include "cli/document/text.h"
#include "cli/environment.h"
#include "cli/options/options.h"

namespace zplan {

/// Reads --oom as a message, a file, or stdin ("-"). Returns the exit status: 0 where a change makes the run
/// fit, or only the message is explained; 1 where none does. Throws InputError where there is no message.
[[nodiscard]] int oom_command(const Options& options, const std::vector<std::string>& arguments,
                              const Environment& environment, const Style& style, std::ostream& out);

}  // namespace zplan
