#pragma once

#include <string_view>

#include "models/base/json_reader.h"

namespace zplan {

/// DeepSpeed's keys, releases and rules as data, compiled into the program: `name` is "keys.json",
/// "lint.json", …
[[nodiscard]] Json deepspeed_data(std::string_view name);

}  // namespace zplan
