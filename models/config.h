#pragma once

#include <optional>
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

/// Returns a model of the same shape whose architecture is known: a Llama, or with experts a Qwen 3 mixture.
[[nodiscard]] Model analogue_of(const ModelShape& shape);

/// Returns the model of a config whose architecture is unknown, with an analogue's tensors and micro-step;
/// nothing if its shape cannot be read.
[[nodiscard]] std::optional<Model> model_by_analogy(const JsonReader& config);

/// The model of an image-text config as it runs with images: its language model by the descriptor, tower and
/// projector in front of it. Nothing where the config is no image-text model's or its tower has no program.
[[nodiscard]] std::optional<Model> image_text_model(const JsonReader& config);

/// The language model of an image-text config by itself.
[[nodiscard]] std::optional<Model> language_model(const JsonReader& config);

/// Returns how the processor of an image-text model counts tokens, nothing if that is not known.
[[nodiscard]] std::optional<ImageRule> image_rule(const JsonReader& config);

/// model_type of every architecture that can be planned with images.
[[nodiscard]] std::vector<std::string> image_text_architectures();

}  // namespace zplan
