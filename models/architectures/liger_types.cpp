#include "models/architectures/liger_types.h"

#include <algorithm>
#include <array>

namespace zplan {

bool liger_patches(std::string_view model_type) {
  static constexpr std::array<std::string_view, 52> kTypes{"deepseek_v2",
                                                           "deepseek_v3",
                                                           "deepseek_v4",
                                                           "exaone4",
                                                           "falcon_h1",
                                                           "gemma",
                                                           "gemma2",
                                                           "gemma3",
                                                           "gemma3_text",
                                                           "gemma4",
                                                           "gemma4_text",
                                                           "glm4",
                                                           "glm4v",
                                                           "glm4v_moe",
                                                           "gpt_oss",
                                                           "granite",
                                                           "hunyuan_v1_dense",
                                                           "hunyuan_v1_moe",
                                                           "internvl",
                                                           "llama",
                                                           "llama4",
                                                           "llama4_text",
                                                           "llava",
                                                           "ministral",
                                                           "mistral",
                                                           "mixtral",
                                                           "mllama",
                                                           "mllama_text_model",
                                                           "muse_glimmer",
                                                           "nemotron",
                                                           "olmo2",
                                                           "olmo3",
                                                           "paligemma",
                                                           "phi3",
                                                           "pixtral",
                                                           "qwen2",
                                                           "qwen2_5_vl",
                                                           "qwen2_5_vl_text",
                                                           "qwen2_vl",
                                                           "qwen2_vl_text",
                                                           "qwen3",
                                                           "qwen3_5",
                                                           "qwen3_5_moe",
                                                           "qwen3_5_moe_text",
                                                           "qwen3_5_text",
                                                           "qwen3_moe",
                                                           "qwen3_next",
                                                           "qwen3_vl",
                                                           "qwen3_vl_moe",
                                                           "qwen3_vl_moe_text",
                                                           "qwen3_vl_text",
                                                           "smollm3"};
  static_assert(std::ranges::is_sorted(kTypes));
  return std::ranges::binary_search(kTypes, model_type);
}

}  // namespace zplan
