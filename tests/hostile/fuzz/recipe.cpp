#include "cli/recipes/recipe.h"

#include "tests/hostile/fuzz/fuzz.h"

/// The first byte says which of the two kinds of text it is.
void zplan::fuzz::read(const std::string& text) {
  const bool is_script = !text.empty() && text.front() == '#';
  static_cast<void>(
      read_recipe(text, is_script ? "r.sh" : "r.yaml", {.gpus = 8, .has_model = true, .given = {}}));
}
