#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/environment.h"

namespace zplan {

/// Exit statuses, as docs/command-line.md promises them.
inline constexpr int kFits = 0, kNothingFits = 1, kBadInput = 2;
/// Ctrl-C in a search that had found nothing yet; elsewhere it ends the process, which shells report alike.
inline constexpr int kInterrupted = 130;

/// The whole program but for the process: `arguments` without its name, data on `out`, messages on `err`.
/// Throws InputError for bad usage and bad input, before anything is written to `out`.
[[nodiscard]] int run(const std::vector<std::string>& arguments, const Environment& environment,
                      std::ostream& out, std::ostream& err);

}  // namespace zplan
