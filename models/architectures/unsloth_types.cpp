#include "models/architectures/unsloth_types.h"

#include <array>

namespace zplan {

std::span<const std::string_view> unsloth_fast_types() {
  static constexpr std::array<std::string_view, 5> kTypes{"llama", "mistral", "qwen2", "qwen3", "gemma"};
  return kTypes;
}

bool unsloth_rotates_in_fp32(std::string_view model_type) { return model_type == "gemma"; }

}  // namespace zplan
