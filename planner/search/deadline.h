#pragma once
// Finds how many GPUs train a number of tokens in a given time: the fewest, the cheapest, the fastest.
// docs/fit.md

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/plan/plan_figures.h"
#include "planner/search/explore.h"
#include "planner/search/inverse.h"

namespace zplan {

/// Holds a run on a number of GPUs, as its fastest plan trains it.
struct TimedRun {
  std::int64_t gpus{};
  Question question;  ///< pinned to the plan
  Plan plan;
  RunCost cost;
};

struct Deadline {
  Seconds within;
  std::vector<TimedRun> tried;                           ///< those that fit, fewest GPUs first
  std::optional<std::size_t> fewest, cheapest, fastest;  ///< of those in time; absent: none is
  std::optional<std::size_t> nearest;                    ///< where none is in time: the shortest
};

/// Returns runs of the question's budget, on GPUs of one node and whole nodes up to `most`, each the fastest
/// plan of a search (`explore`) in `scope`. Throws InputError where nothing is legal on any number.
[[nodiscard]] Deadline solve_deadline(const OpenQuestion& open, const Scope& scope, Seconds within,
                                      std::int64_t most);

}  // namespace zplan
