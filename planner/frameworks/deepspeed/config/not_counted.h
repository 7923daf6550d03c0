#pragma once

#include <string>
#include <vector>

#include "models/base/json_reader.h"

namespace zplan {

/// Settings of `config` that change memory, traffic or time and that no plan counts: one sentence each, "not
/// counted: <place> = <value> (<what it does>)". `stage` is the ZeRO stage: a setting that does nothing there
/// is left out. The settings are data: not_counted.json.
[[nodiscard]] std::vector<std::string> not_counted(const JsonReader& config, int stage);

}  // namespace zplan
