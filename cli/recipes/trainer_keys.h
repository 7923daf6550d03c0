#pragma once
// The keys by which a trainer's config says what a plan assumes: for writing a plan into a recipe, and for
// telling a user what to set.

#include <string_view>
#include <vector>

#include "cli/recipes/recipe.h"
#include "cli/recipes/recipe_text.h"
#include "planner/question/strategy.h"

namespace zplan {

/// A value of an option, and the keys that say it.
template <class Value>
struct KeysOf {
  Value value{};
  std::vector<RecipeChange> changes;
};

/// The key of a trainer's file that says one of the arguments of Megatron-Core or torchtitan.
struct ArgumentKey {
  std::string_view argument;  ///< with its dashes, as arguments of a plan are listed
  std::string_view key;
  std::string_view unsaid;  ///< what the trainer takes where the key is not there
  std::string_view absent;  ///< the value of plans that do not list the argument; empty: the key goes
};

/// The keys of one format.
struct TrainerKeys {
  RecipeFormat format{};
  std::string_view micro_batch{}, accumulation{};
  std::string_view sequence{};  ///< tokens of a sample
  std::string_view checkpointing{}, checkpointed{"true"}, unchecked{"false"};
  std::string_view deepspeed{};               ///< names a ds_config
  std::vector<std::string_view> fsdp{};       ///< keys of FSDP, which go where it is not used
  std::vector<RecipeChange> lora{}, qlora{};  ///< make adapters of full fine-tuning, and pack its weights
  std::vector<RecipeChange> fused_loss{};     ///< Liger's loss and kernels
  std::string_view optimizer{};               ///< takes a name of the HF Trainer's --optim
  std::vector<KeysOf<Precision>> precisions{};
  std::vector<KeysOf<Attention>> attentions{};
  std::string_view quant_storage{};
  std::string_view nothing_accumulated{"1"};  ///< the accumulation where the key is not there; empty: depends
  std::vector<ArgumentKey> arguments{};       ///< of trainers that run Megatron-Core or torchtitan
};

/// Returns the keys of a format.
[[nodiscard]] const TrainerKeys& trainer_keys(RecipeFormat format);

/// Returns the changes for one of the values; none where the format has no key for it.
template <class Value>
[[nodiscard]] std::vector<RecipeChange> changes_for(const std::vector<KeysOf<Value>>& keys, Value value) {
  for (const KeysOf<Value>& each : keys)
    if (each.value == value) return each.changes;
  return {};
}

}  // namespace zplan
