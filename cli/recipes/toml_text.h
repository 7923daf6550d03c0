#pragma once
// TOML as the tree that recipes are read from.

#include <string>
#include <string_view>

#include "cli/recipes/recipe_text.h"

namespace zplan {

/// Returns the document as a tree. Numbers are written in decimal digits; other scalars but text stay as the
/// file has them. Throws InputError "file:line: found; accepted" for what is no TOML, for more than
/// 100,000 values or 64 levels, and for a dotted key of more than 16 parts.
[[nodiscard]] RecipeValue toml_document(std::string_view text, const std::string& file);

}  // namespace zplan
