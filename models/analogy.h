#pragma once

#include <optional>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

/// Returns the shape that a config, or its language model's part, says in the names that most architectures
/// use; nothing where width, depth or vocabulary are missing.
[[nodiscard]] std::optional<ModelShape> shape_by_names(const Json& config);

/// Returns the model whose micro-step is nearest: of all architectures with descriptors that read `config`
/// under their own name, the one most of whose tensors have the sizes and roles of `own`; analogue_of(shape)
/// where none has more in common.
[[nodiscard]] Model nearest_model(const Json& config, const Inventory& own, const ModelShape& shape);

}  // namespace zplan
