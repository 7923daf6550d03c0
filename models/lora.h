#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"

namespace zplan {

/// Which modules get adapters, as peft's target_modules: "all-linear" (every linear layer but the head),
/// "q_v" (queries and values; the fused weight where there is one, q_b_proj and kv_b_proj in latent
/// attention), or module names, each matched against the end of a module's path ("v_proj",
/// "self_attn.v_proj").
struct LoraTargets {
  std::vector<std::string> modules{"all-linear"};
  std::vector<std::string> excluded{};  ///< paths below which nothing is adapted (peft's exclude_modules)
  bool operator==(const LoraTargets&) const = default;
};

/// The adapters that peft adds to a frozen model.
struct AdapterSpec {
  std::int64_t rank{16};
  LoraTargets targets{};
  bool magnitudes{};                         ///< DoRA: a magnitude for each output of an adapted layer
  std::vector<std::string> saved_modules{};  ///< modules_to_save: embed_tokens, lm_head; trained as copies
  bool ties_saved{};                         ///< ensure_weight_tying: tied embeddings have one copy
  bool operator==(const AdapterSpec&) const = default;
};

/// Returns all tensors of the adapters, those of lora_adapters and copies of saved modules, each in the place
/// of its module. Tied embeddings become two copies unless they are kept tied. Throws InputError as
/// lora_adapters does, and
/// ("--modules-to-save", …) for a module that is neither the token embedding nor the output head, ("--dora",
/// …) if stacked experts are adapted. Source: peft 0.21.2 utils/other.py ModulesToSaveWrapper,
/// tuners/lora/dora.py.
[[nodiscard]] Inventory added_tensors(const Model& model, const AdapterSpec& spec);

/// True if the tensor is a saved module's copy.
[[nodiscard]] bool is_saved_copy(const Tensor& tensor);

/// Returns the adapter tensors (lora_A and lora_B of each adapted weight) as an inventory of the same layers,
/// with the names of peft 0.21. lora_A has the base weight's input and lora_B its output, so each is split
/// where the base weight is, and whole elsewhere. Throws InputError("--lora-targets", …) for a module that
/// the model does not have, naming those it has, and InputError("--lora-rank", …) for a rank that is not
/// positive or far too large.
[[nodiscard]] Inventory lora_adapters(const Model& model, std::int64_t rank, const LoraTargets& targets);

/// Returns the names of modules that can have an adapter, in order of appearance. Stacks of experts have the
/// names that their parts had before transformers stacked them (gate_proj, up_proj, down_proj; w1, w3, w2 in
/// Mixtral), as in peft.
[[nodiscard]] std::vector<std::string> adaptable_modules(const Model& model);

/// Returns the targets that stand for `targets` of `model` in `analogue`, whose micro-step is planned in its
/// place: `targets` where the analogue has all of them, else its modules of the parts that are adapted
/// (attention, feed-forward).
[[nodiscard]] LoraTargets analogous_targets(const Model& model, const Model& analogue,
                                            const LoraTargets& targets);

}  // namespace zplan
