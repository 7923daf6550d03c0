#include "models/config.h"

#include <nlohmann/json.hpp>

#include "models/base/json_reader.h"
#include "tests/hostile/fuzz/fuzz.h"

void zplan::fuzz::read(const std::string& text) {
  const Json json = parse_json(text, "config.json");
  static_cast<void>(read_config(JsonReader(json, "config.json")));
}
