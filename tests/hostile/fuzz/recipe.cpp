#include "cli/recipes/recipe.h"

#include "tests/hostile/fuzz/fuzz.h"

namespace {

/// The first byte says which kind of text it is: a script's comment, a table of TOML, or YAML.
const char* file_of(const std::string& text) {
  switch (text.empty() ? '\0' : text.front()) {
    case '#': return "r.sh";
    case '[': return "r.toml";
    default: return "r.yaml";
  }
}

}  // namespace

void zplan::fuzz::read(const std::string& text) {
  const std::int64_t gpus = 8;
  static_cast<void>(read_recipe(text, file_of(text), {.gpus = gpus, .has_model = true, .given = {}}));
}
