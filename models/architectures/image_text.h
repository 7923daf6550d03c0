#pragma once
// Families of image-text models, as rows: where the language model's tensors stand and how the tower's config
// is read.

#include <cstdint>
#include <string>
#include <string_view>

#include "models/base/json_reader.h"
#include "models/vision/vision.h"

namespace zplan::architectures {

struct ImageTextFamily {
  std::string_view model_type, text_type;
  std::string_view prefix;  ///< of the language model's tensors
  Vision (*read)(const JsonReader& config, const JsonReader& tower, std::int64_t text_width);
  std::string_view output{};  ///< key of the tower's config: the width of what it gives the language model
  bool text_may_tie{};        ///< older files say tie_word_embeddings of their text_config alone
};

/// Returns the family of this model_type; null where it has no program for images.
[[nodiscard]] const ImageTextFamily* image_text_family(std::string_view model_type);

/// Throws InputError for a tower whose heads or features do not go with its width or the language model's.
void check_tower(const JsonReader& tower, const ImageTextFamily& family, const Vision& vision);

}  // namespace zplan::architectures
