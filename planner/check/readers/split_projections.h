#pragma once
// Models in the words of libraries that name the parts of one projection.

#include "models/model.h"

namespace zplan::check {

/// The model with q_proj, k_proj and v_proj in the place of one projection, and gate_proj and up_proj in the
/// place of one of both, and with Llama's order of operations around them: litgpt's block, whose one product
/// for queries, keys and values is planned by ModuleSet::projections. Parameters stay the same in number.
/// Source: litgpt 0.5 model.py Block, CausalSelfAttention, LLaMAMLP; scripts/convert_hf_checkpoint.py.
[[nodiscard]] Model with_split_projections(Model model);

}  // namespace zplan::check
