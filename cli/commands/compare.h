#pragma once
// `compare`: what is compared, and the answer to it.

#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "cli/report/saved_report.h"
#include "planner/search/crossover.h"
#include "planner/search/search.h"

namespace zplan {

/// One plan for each word of the command line: strategies as parse_strategy reads them, or DeepSpeed configs.
struct Comparison {
  Answer answer;                     ///< those that fit first, as in every report
  std::vector<std::string> ids;      ///< of the plans in the order in which they were asked for
  std::string baseline;              ///< what differences are from: a plan's id, or the saved report's file
  std::optional<SavedReport> saved;  ///< where that is a saved report
  std::optional<Contest> contest{};
};
/// Throws InputError where a word cannot be read or what it names cannot be trained.
[[nodiscard]] Comparison compare(const Question& question, const Options& options);

/// Throws InputError where --differences stands beside an output that has no lines.
void check_differences(const Options& options);

/// Methods that the words of `compare` name beside --method.
[[nodiscard]] std::vector<Method> methods_named(const Options& options);

}  // namespace zplan
