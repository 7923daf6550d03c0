#include "cli/recipes/recipe_text.h"
#include "tests/hostile/fuzz/fuzz.h"

void zplan::fuzz::read(const std::string& text) { static_cast<void>(read_shell_script(text, "r.sh")); }
