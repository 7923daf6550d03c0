#pragma once
// Finds what of a question a search may vary, which is all that was not typed.

#include <string>
#include <vector>

#include "cli/base/environment.h"
#include "cli/options/options.h"
#include "planner/search/levers.h"

namespace zplan {

/// Returns what `zplan search` varies of a question with these options.
[[nodiscard]] Scope search_scope(const Options& options, const SearchSpace& space);

/// Holds the question of an advice and what of it is open.
struct AdvisedQuestion {
  Question question;
  OpenLevers open;
};

/// Returns what `zplan search` makes of the question that was typed: `question` itself where it names a
/// config or is a search; of a recipe the step alone stays as large as it is. `plan` keeps its micro-batch of
/// 1 where nothing says another.
[[nodiscard]] AdvisedQuestion advised_question(const Options& options,
                                               const std::vector<std::string>& arguments,
                                               const Question& question, const Environment& environment);

}  // namespace zplan
