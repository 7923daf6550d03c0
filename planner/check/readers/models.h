#pragma once
// Models as measured rows name them.

#include <optional>
#include <string>

#include "models/base/json_reader.h"
#include "planner/check/case.h"

namespace zplan::check {

/// Returns the model of a config.json or a recorded model; nothing, and the reason in `skip`, where the
/// architecture is not known. Throws InputError for a broken config of a known architecture.
[[nodiscard]] std::optional<Model> model_at(const JsonReader& config, Skip& skip);

/// Returns the model of the catalogue whose activations were measured, cut to the layers that `shape` says;
/// nothing where the catalogue has none of that name and those sizes.
[[nodiscard]] std::optional<Model> measured_model(const std::string& name, const JsonReader& shape);

/// Returns the named model of the catalogue with the fewest layers that hold one with a window and one
/// without, where it has both; else with one layer. Nothing where the catalogue has no such name.
[[nodiscard]] std::optional<Model> smallest_model(const std::string& name, const std::string& place);

/// Returns the Llama of a recorded run, whose sizes are `hidden`, `ffn`, `layers`, `heads`, `kv`, `vocab`,
/// `tie`.
[[nodiscard]] Model small_llama(const JsonReader& sizes);

/// Returns the model with q_proj, k_proj and v_proj in the place of one projection, with gate_proj and
/// up_proj in the place of one of both, and with Llama's order of operations around them: litgpt's block,
/// whose one product for queries, keys and values is ModuleSet::projections. The number of
/// parameters stays. Source: litgpt 0.5 model.py Block, CausalSelfAttention, LLaMAMLP;
/// scripts/convert_hf_checkpoint.py.
[[nodiscard]] Model with_split_projections(Model model);

}  // namespace zplan::check
