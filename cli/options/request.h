#pragma once
// Options, the recipes and configs that they name → the question that the planner answers.

#include <string>
#include <vector>

#include "cli/base/environment.h"
#include "cli/options/options.h"
#include "models/catalogue/catalogue.h"
#include "planner/question/question.h"
#include "planner/search/inverse.h"

namespace zplan {

/// Returns where models are looked for besides the catalogue.
[[nodiscard]] ModelSearch model_search(const Options& options, const Environment& environment);

/// Holds the question and the warnings of its configs. make_request throws InputError where an option is
/// missing, contradicts another or names something unknown.
struct Request {
  Question question;
  std::vector<std::string> warnings;  ///< of a ds_config that was read
};
[[nodiscard]] Request make_request(const Options& options, const Environment& environment);

/// Returns the question with what its cluster was assembled from, for a value that is left open.
[[nodiscard]] OpenQuestion open_question(const Options& options, const Question& question,
                                         const HardwareProfiles& hardware);

/// Defaults that depend on the model and the GPU: no more tokens than the model has positions for, and no
/// flash attention where its kernels do not run (before Ampere, or in fp32).
void choose_defaults(const Options& options, Question& question);

/// Each option alone is in range; together they can still ask for more than 64 bits count: InputError.
void check_magnitude(const Question& question);

/// Pins in `question` what the file of --ds-config says; options fill what it leaves open. Returns its
/// warnings. Throws InputError where the file cannot be read or an option contradicts it, naming both places.
[[nodiscard]] std::vector<std::string> apply_ds_config(const Options& options, Question& question);

/// Sets what the files of --recipe say and was not typed, as if it had been; `Options::recipes` says which
/// key was used for what. A search is given the samples of an optimizer step instead of how they are divided.
/// Options without a recipe are returned as they are. Throws InputError naming file, line and key.
[[nodiscard]] Options with_recipes(Options typed);

/// Leaves out what a recipe says of parts that its model has not, as its trainer does: modules with adapters,
/// towers to freeze, kernels of layers that no plan knows. `Options::recipes` says so.
[[nodiscard]] Options without_missing(Options options, const Environment& environment);

/// `error`, with the recipe's key in front where it is about an option that a recipe set.
[[nodiscard]] InputError at_recipe(const Options& options, const InputError& error);

}  // namespace zplan
