#include "models/architectures/tp_plans.h"

#include <array>

namespace zplan {

std::span<const std::string_view> architectures_with_llamas_tp_plan() {
  static constexpr std::array<std::string_view, 11> kPlanned{"llama",     "mistral",  "qwen2",     "qwen3",
                                                             "smollm3",   "seed_oss", "ministral", "gemma",
                                                             "internlm3", "mixtral",  "qwen3_moe"};
  return kPlanned;
}

}  // namespace zplan
