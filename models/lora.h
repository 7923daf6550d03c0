#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"

namespace zplan {

/// Which modules get adapters: "all-linear" (peft's meaning: every linear layer but the head), "q_v", or module names.
struct LoraTargets {
  std::vector<std::string> modules{"all-linear"};
  bool operator==(const LoraTargets&) const = default;
};

/// The adapter tensors (lora_A and lora_B of each adapted weight) as an inventory of the same layers.
/// Throws InputError("--lora-targets", …) for a module that the model does not have, naming those it has.
[[nodiscard]] Inventory lora_adapters(const Model& model, std::int64_t rank, const LoraTargets& targets);

/// Names of modules that can carry an adapter, in order of appearance.
[[nodiscard]] std::vector<std::string> adaptable_modules(const Model& model);

}  // namespace zplan
