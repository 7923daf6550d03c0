#include "cli/recipes/toml_text.h"
#include "tests/hostile/fuzz/fuzz.h"

void zplan::fuzz::read(const std::string& text) { static_cast<void>(toml_document(text, "r.toml")); }
