#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

/// The model of an image-text config as it runs with images: its language model by the descriptor, tower and
/// projector in front of it. Nothing where the config is no image-text model's or its tower has no program.
[[nodiscard]] std::optional<Model> image_text_model(const JsonReader& config);

/// The language model of an image-text config by itself.
[[nodiscard]] std::optional<Model> language_model(const JsonReader& config);

/// How the processor of an image-text model counts tokens, whatever its language model; nothing where that is
/// not known.
[[nodiscard]] std::optional<ImageRule> image_rule(const JsonReader& config);

/// model_type of every architecture that can be planned with images.
[[nodiscard]] std::vector<std::string> image_text_architectures();

}  // namespace zplan
