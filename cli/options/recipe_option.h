#pragma once

#include <vector>

#include "cli/options/options.h"

namespace zplan {

/// Sets what the files of --recipe say and was not typed, as if it had been; `Options::recipes` says which
/// key was used for what. A search is given the samples of an optimizer step instead of how they are divided.
/// Options without a recipe are returned as they are. Throws InputError naming file, line and key.
[[nodiscard]] Options with_recipes(Options typed);

/// `error`, with the recipe's key in front where it is about an option that a recipe set.
[[nodiscard]] InputError at_recipe(const Options& options, const InputError& error);

}  // namespace zplan
