#pragma once
// What one rank does from its start to its end, and the lines that rank 0 prints of it.

#include <string>
#include <vector>

#include "harness/backend.h"
#include "harness/options.h"

namespace zplan::bench {

inline constexpr int kDone = 0, kFailed = 1, kBadInput = 2;

/// Measures what the options ask for. Prints to stdout on rank 0 alone. Returns the exit status: kFailed
/// where a result was wrong or the plan's memory is not there. Throws InputError and BenchError.
[[nodiscard]] int run(const Options& options, const std::vector<std::string>& arguments, Backend& backend);

}  // namespace zplan::bench
