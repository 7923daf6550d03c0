#include "cli/scenarios/scenarios.h"

#include <nlohmann/json.hpp>

#include "models/base/json_reader.h"
#include "tests/hostile/fuzz/fuzz.h"

void zplan::fuzz::read(const std::string& text) {
  const Json json = parse_json(text, "s.zplan");
  if (is_scenario_file(json)) static_cast<void>(scenarios_text(read_scenarios(json, "s.zplan"), "s.zplan"));
}
