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

/// Returns the advice for the question of a `plan` or `search` that was typed. It is that of `zplan search`:
/// of `question` itself where it names a config or is a search; of a recipe the step alone stays as large as
/// it is. `plan` keeps its micro-batch of 1 where nothing says another.
[[nodiscard]] Advice advice_for(const Options& options, const std::vector<std::string>& arguments,
                                const Question& question, const Environment& environment);

}  // namespace zplan
