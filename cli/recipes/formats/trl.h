#pragma once
// TRL's rows, which scripts of others have, too.

#include "cli/recipes/recipe_table.h"

namespace zplan::trl {

/// Rows of TRL's configs and ModelConfig, without those of TrainingArguments.
[[nodiscard]] std::vector<RecipeRow> rows();

}  // namespace zplan::trl
