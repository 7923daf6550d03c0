#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

/// Returns the model of an architecture whose tensors are known as expressions over its config's fields
/// (models/inventories/files/), with exact tensors at any size and an analogue's micro-step. Nothing if the
/// architecture has no such file. Throws InputError where fields make no sizes.
[[nodiscard]] std::optional<Model> model_by_rules(const JsonReader& config);

/// Returns the architectures that have such files, sorted.
[[nodiscard]] std::vector<std::string> architectures_by_rules();

}  // namespace zplan
