#pragma once

#include <optional>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

/// A model of the same shape whose architecture is known: a Llama, or with experts a Qwen 3 mixture.
[[nodiscard]] Model analogue_of(const ModelShape& shape);

/// The model of a config whose architecture nobody knows, where its shape can be read: tensors and micro-step
/// are an analogue's. Nothing where the shape cannot be read.
[[nodiscard]] std::optional<Model> model_by_analogy(const JsonReader& config);

}  // namespace zplan
