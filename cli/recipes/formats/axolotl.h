#pragma once
// Parts of axolotl's table.

#include "cli/recipes/recipe_table.h"

namespace zplan::axolotl {

/// Another key's whole number, or what stands for it.
[[nodiscard]] std::int64_t number_of(const RecipePlace& place, std::string_view key, std::int64_t otherwise);
/// True if `fsdp` or `fsdp_config` stands there and is not empty.
[[nodiscard]] bool shards(const RecipePlace& place);
/// True if fsdp_version says 2; without it axolotl takes FSDP1.
[[nodiscard]] bool is_fsdp2(const RecipePlace& place);

/// FSDP, DeepSpeed, degrees of parallelism.
[[nodiscard]] std::vector<RecipeRow> parallel_rows();
/// Preferences, rewards, GRPO.
[[nodiscard]] std::vector<RecipeRow> objective_rows();
[[nodiscard]] RecipeOptions default_engine(const RecipePlace& place);  ///< of GRPO
/// Keys that matter and that no plan knows.
[[nodiscard]] std::vector<RecipeRow> rows_not_planned();

}  // namespace zplan::axolotl
