#include <nlohmann/json.hpp>

#include "models/base/json_reader.h"
#include "planner/check/readers/pickle.h"
#include "planner/check/readers/read.h"
#include "tests/hostile/fuzz/fuzz.h"

void zplan::fuzz::read(const std::string& text) {
  const Json json = check::read_pickle(text, "s.pickle");
  static_cast<void>(check::memory_snapshot(JsonReader(json, "s.pickle")));
}
