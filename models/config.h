#pragma once

#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

/// A Hugging Face config.json → the model: shape and every parameter tensor, by the architecture's
/// descriptor, as it was recorded or, where nobody knows it but its shape can be read, by analogy
/// (Model::analogue). Unset `name`, `source` and `origin` are the caller's to fill. Throws InputError naming
/// file and JSON pointer: an architecture that is not supported (with those that are), a missing field, a
/// value out of range, or sizes that do not go together.
[[nodiscard]] Model read_config(const JsonReader& config);

/// model_type of every architecture that read_config knows, sorted.
[[nodiscard]] std::vector<std::string> supported_architectures();

}  // namespace zplan
