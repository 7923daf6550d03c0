#pragma once
// Errors and warnings of --ds-config.

#include <string>
#include <vector>

#include "models/base/json_reader.h"

namespace zplan {

/// Checks `config`, which is the whole document, by the rules of lint (lint.h). What no plan can go past
/// throws InputError: unknown keys at the top level and in sections where DeepSpeed raises, removed keys,
/// arguments that an optimizer or scheduler does not have, settings that contradict each other. Returns one
/// sentence for each key that DeepSpeed ignores silently or calls deprecated, and for each "auto" that nobody
/// fills in.
[[nodiscard]] std::vector<std::string> check_keys(const JsonReader& config);

/// Settings of `config` that change memory, traffic or time and that no plan counts: one sentence each, "not
/// counted: <place> = <value> (<what it does>)". `stage` is the ZeRO stage: a setting that does nothing there
/// is left out. The settings are data: not_counted.json.
[[nodiscard]] std::vector<std::string> not_counted(const JsonReader& config, int stage);

}  // namespace zplan
