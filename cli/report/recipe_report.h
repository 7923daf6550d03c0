#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/report/report.h"
#include "models/base/json_reader.h"

namespace zplan {

/// Which keys of the recipes said what, which said nothing, and what they leave open.
[[nodiscard]] std::vector<std::string> recipe_lines(const Options& options);
/// "recipes" of the report.
[[nodiscard]] Json recipes_json(const std::vector<Recipe>& recipes);

/// --recipe-out: the first recipe with what the recommended plan changes of it (where nothing fits, what
/// would fit instead), and the config that it then names. Empty where there is no such plan.
struct WrittenRecipe {
  std::string text;                  ///< of the recipe
  std::string config_file, config;   ///< beside it; empty: none
  std::vector<std::string> changes;  ///< "micro_batch_size: 2"
  std::vector<std::string> notes;    ///< what is not the recipe's to say
};
[[nodiscard]] std::optional<WrittenRecipe> written_recipe(const Report& report);

/// Writes it and says so; nothing without --recipe-out. "-": to `out`.
void write_recipe(const Report& report, std::ostream& out, std::ostream& err);

}  // namespace zplan
