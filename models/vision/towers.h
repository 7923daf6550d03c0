#pragma once
// Multimodal models whose towers have no program: the tensors of towers and projectors, as expressions over
// the fields of the config (models/vision/towers/, written by derive_towers.py), around a language model that
// is read by itself.

#include <optional>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

/// Returns the model on text alone: the language model's program or its analogue's, its towers idle. Nothing
/// if no file describes the architecture's tensors, or its language model cannot be read.
[[nodiscard]] std::optional<Model> model_with_idle_towers(const JsonReader& config);

/// Returns the architectures whose towers are described, sorted.
[[nodiscard]] std::vector<std::string> architectures_with_idle_towers();

}  // namespace zplan
