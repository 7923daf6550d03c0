#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/base/environment.h"

namespace zplan {

/// The whole program but for the process: `arguments` without its name, data on `out`, messages on `err`.
/// Throws InputError for bad usage and bad input, before anything is written to `out`.
[[nodiscard]] int run(const std::vector<std::string>& arguments, const Environment& environment,
                      std::ostream& out, std::ostream& err);

/// Runs the program on the process's environment and streams, every error as one line on stderr. Returns the
/// exit status. `arguments` without the program's name.
[[nodiscard]] int run_process(const std::vector<std::string>& arguments) noexcept;

}  // namespace zplan
