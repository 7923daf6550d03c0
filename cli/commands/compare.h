#pragma once
// `compare`: what is compared, and the answer to it.

#include <string>
#include <vector>

#include "cli/options/options.h"
#include "cli/report/report.h"

namespace zplan {

/// Plans one strategy or DeepSpeed config for each word of the command line, as parse_strategy reads them.
/// Throws InputError where a word cannot be read or what it names cannot be trained.
[[nodiscard]] Comparison compare(const Question& question, const Options& options);

/// Throws InputError where --differences stands beside an output that has no lines.
void check_differences(const Options& options);

/// Methods that the words of `compare` name beside --method.
[[nodiscard]] std::vector<Method> methods_named(const Options& options);

}  // namespace zplan
