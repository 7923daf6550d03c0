#pragma once
// Model types of which Liger-Kernel replaces modules.

#include <string_view>

namespace zplan {

/// True if `use_liger_kernel` of the Hugging Face Trainer changes models of this type. Source: Liger-Kernel
/// 0.8.5 transformers/monkey_patch.py MODEL_TYPE_TO_APPLY_LIGER_FN.
[[nodiscard]] bool liger_patches(std::string_view model_type);

}  // namespace zplan
