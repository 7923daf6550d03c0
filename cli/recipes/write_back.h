#pragma once
// A recipe with other values, and everything else as it was: comments, order, spelling.

#include <optional>
#include <string>
#include <vector>

#include "cli/recipes/recipe_text.h"

namespace zplan {

struct RecipeChange {
  std::string key;                   ///< dotted path
  std::optional<std::string> value;  ///< a number, a word or true; absent: the key goes
};

/// The text with the changes made: values are replaced where they stand, keys that go become comments (of
/// JSON and of a command line they are taken out), new keys stand at the end below a comment.
[[nodiscard]] std::string changed_recipe(const RecipeText& recipe, const std::vector<RecipeChange>& changes);

}  // namespace zplan
