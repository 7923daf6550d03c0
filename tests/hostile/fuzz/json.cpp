#include <nlohmann/json.hpp>

#include "models/base/json_reader.h"
#include "tests/hostile/fuzz/fuzz.h"

void zplan::fuzz::read(const std::string& text) { static_cast<void>(parse_json(text, "a.json")); }
