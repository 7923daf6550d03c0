#pragma once
// Errors of a recipe, one for each key.

#include <string>
#include <vector>

#include "cli/recipes/recipe.h"
#include "models/base/error.h"

namespace zplan {

/// RecipeRefusals are the errors that read_recipe would throw one after the other.
struct RecipeRefusals {
  RecipeFormat format{};
  std::vector<InputError> errors;
};

/// Reads the recipe as read_recipe does, but goes on behind a key that is refused. Throws InputError for a
/// text that is no recipe.
[[nodiscard]] RecipeRefusals recipe_refusals(std::string text, const std::string& file,
                                             const RecipeAsked& asked);

}  // namespace zplan
