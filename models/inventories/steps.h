#pragma once

#include <memory>
#include <string>

#include "models/inventories/fields.h"
#include "models/model.h"

namespace zplan {

/// Returns the recorded micro-steps of an architecture (models/inventories/steps/) at the sizes of a config;
/// nothing where none were recorded, or not of layers like these, one behind the other. `model` has the
/// inventory and the shape.
[[nodiscard]] std::shared_ptr<const Recorded> recorded_steps(const ConfigFields& fields, const Model& model);

}  // namespace zplan
