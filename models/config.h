#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan {

/// Reads a Hugging Face config.json: shape and every parameter tensor, by the architecture's descriptor, as
/// it was recorded or, if the architecture is unknown but its shape can be read, by analogy
/// (Model::analogue). The caller fills in `name`, `source` and `origin`. Throws InputError, which names file
/// and JSON pointer, for an unsupported architecture (with those that are supported), a missing field, a
/// value out of range, or sizes that contradict each other.
[[nodiscard]] Model read_config(const JsonReader& config);

/// Returns the model_type of every architecture that read_config knows, sorted.
[[nodiscard]] std::vector<std::string> supported_architectures();

/// Returns a model of the same shape whose architecture is known: a Llama, or with experts a Qwen 3 mixture.
[[nodiscard]] Model analogue_of(const ModelShape& shape);

/// Returns the model of a config whose architecture is unknown, with an analogue's tensors and micro-step;
/// nothing if its shape cannot be read.
[[nodiscard]] std::optional<Model> model_by_analogy(const JsonReader& config);

/// Returns the model of an image-text config with images as input: tower, projector, and its language model
/// by the descriptor. Nothing if the config is no image-text model's or its tower cannot be simulated.
[[nodiscard]] std::optional<Model> image_text_model(const JsonReader& config);

/// Returns the language model of an image-text config alone.
[[nodiscard]] std::optional<Model> language_model(const JsonReader& config);

/// Returns how the processor of an image-text model counts tokens, nothing if that is not known.
[[nodiscard]] std::optional<ImageRule> image_rule(const JsonReader& config);

/// Returns the model_type of every architecture that can be planned with images.
[[nodiscard]] std::vector<std::string> image_text_architectures();

}  // namespace zplan
