#pragma once
// Options → the question that the planner answers.

#include <vector>

#include "cli/environment.h"
#include "cli/options/options.h"
#include "models/catalogue/catalogue.h"
#include "planner/question/question.h"

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

/// Defaults that depend on the model and the GPU: no more tokens than the model has positions for, and no
/// flash attention where its kernels do not run (before Ampere, or in fp32).
void choose_defaults(const Options& options, Question& question);

/// Each option alone is in range; together they can still ask for more than 64 bits count: InputError.
void check_magnitude(const Question& question);

}  // namespace zplan
