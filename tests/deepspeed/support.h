#pragma once

#include <string>

#include "models/base/json_reader.h"
#include "planner/frameworks/deepspeed/config/read_config.h"

namespace zplan::testing {

/// A JSON file under tests/.
inline Json test_json(const std::string& path) {
  return parse_json(read_file(std::string(ZPLAN_TEST_DATA) + "/" + path), path);
}

inline DsConfigPins read(const Json& config, std::int64_t hidden_size = 4096) {
  return read_ds_config(config.dump(), "ds.json", hidden_size);
}

/// The message of the InputError that reading `config` ends in; empty where it does not.
inline std::string error_of(const Json& config) {
  try {
    (void)read(config);
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace zplan::testing
