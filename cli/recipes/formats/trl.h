#pragma once
// TRL's rows, which scripts of others have, too.

#include "cli/recipes/recipe_table.h"

namespace zplan::trl {

/// Rows of TRL's configs and ModelConfig, without those of TrainingArguments.
[[nodiscard]] std::vector<RecipeRow> rows();

/// "sft", "dpo", …: which trainer's config the file is; empty: one that no plan knows.
[[nodiscard]] std::string_view objective_of(const RecipePlace& place);

/// Liger's layers, and its loss of next tokens, which trainers of preferences and rewards do not ask for.
[[nodiscard]] RecipeOptions liger_kernels(const RecipePlace& place);

}  // namespace zplan::trl
