#pragma once
// Model types whose fast models of Unsloth are planned.

#include <span>
#include <string_view>

namespace zplan {

/// Returns the model types whose fast models are planned, of those that Unsloth has. Source: unsloth 2026.10.9
/// models/loader.py.
[[nodiscard]] std::span<const std::string_view> unsloth_fast_types();

/// True if the fast model of this type keeps its rotary tables in fp32. Source: unsloth 2026.10.9
/// models/gemma.py GemmaFixedRotaryEmbedding.
[[nodiscard]] bool unsloth_rotates_in_fp32(std::string_view model_type);

}  // namespace zplan
