#pragma once
// Options → the question that the planner answers.

#include <optional>
#include <vector>

#include "cli/environment.h"
#include "cli/options.h"
#include "models/catalogue/catalogue.h"
#include "planner/search/crossover.h"

namespace zplan {

/// Where models and profiles are looked for beside the built-in ones.
[[nodiscard]] ModelSearch model_search(const Environment& environment);

/// The question, and what to say beside its answer. Throws InputError where an option is missing or
/// contradicts another, or names something unknown.
struct Request {
  Question question;
  std::vector<std::string> warnings;  ///< of a ds_config that was read
};
[[nodiscard]] Request make_request(const Options& options, const Environment& environment);

/// The answer to `compare`: `strategies` as strategy_id writes them, one plan each.
struct Comparison {
  Answer answer;                 ///< those that fit first, as in every report
  std::vector<std::string> ids;  ///< of the plans in the order in which they were asked for
  std::optional<Contest> contest{};
};
[[nodiscard]] Comparison compare(const Question& question, const std::vector<std::string>& strategies);

}  // namespace zplan
