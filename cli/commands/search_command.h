#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/environment.h"
#include "cli/options/options.h"
#include "cli/report/report.h"
#include "planner/search/explore.h"

namespace zplan {

/// What `zplan search` varies: all that the options leave open.
[[nodiscard]] Scope search_scope(const Options& options, const SearchSpace& space);

/// The question with what the search chose, as a pinned plan would ask it.
[[nodiscard]] Question pinned_question(const Question& question, const Found& found);

/// Looks at everything that is left open. Says on `err` how far it is where that is a terminal and takes
/// long; on the first Ctrl-C it stops and keeps the best so far.
[[nodiscard]] Exploration search(const Question& question, const Scope& scope, const Environment& environment,
                                 std::ostream& err);

}  // namespace zplan
