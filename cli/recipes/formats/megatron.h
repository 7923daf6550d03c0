#pragma once
// Megatron-Core's arguments as keys of trainers that run it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/recipes/recipe_table.h"

namespace zplan {

/// MegatronSpelling tells how a trainer's file says what Megatron's command line says by a switch.
enum class MegatronSpelling {
  switches,  ///< a key is there or not: no_gradient_accumulation_fusion
  values     ///< a key is true or false: gradient_accumulation_fusion: false
};

/// Returns what the trainer sets of these arguments where no key says otherwise, by its row of
/// planner/question/trainers.cpp.
[[nodiscard]] std::vector<RecipeDefault> megatron_argument_defaults(std::string_view trainer,
                                                                    MegatronSpelling spelling);

/// Returns a trainer's own rows and, of keys that it has no row of, those of --megatron's arguments and those
/// of arguments that matter and that no plan has, whose usual values are accepted.
[[nodiscard]] std::vector<RecipeRow> with_megatron_rows(const std::vector<std::vector<RecipeRow>>& own,
                                                        MegatronSpelling spelling);

/// Returns the argument with a value as --megatron takes it: {"--megatron", "attention-backend=flash"}.
/// Throws InputError at the key where Megatron or zplan does not accept it.
[[nodiscard]] RecipeOptions megatron_argument(const RecipePlace& place, std::string_view name,
                                              std::string_view value);

/// Accepts the words of the row. Throws InputError at the key for any other value, which is not
/// planned.
[[nodiscard]] RecipeOptions only_planned(const RecipePlace& place);

/// Returns the key and the value that say an argument of Megatron's command line in a file of values, such as
/// {"gradient_accumulation_fusion", "false"} of "--no-gradient-accumulation-fusion"; nothing for what the
/// trainer of the format always does.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> megatron_setting(std::string_view argument,
                                                                                  std::string_view value,
                                                                                  RecipeFormat format);

/// Returns --global-batch of `batch` samples. Where the script's own GPUs can make it and the typed ones
/// cannot, which Megatron refuses, it is the smallest multiple of micro-batch and data-parallel ranks above
/// it, and the key is named.
[[nodiscard]] RecipeOptions megatron_global_batch(const RecipePlace& place, std::int64_t batch);

/// Returns the samples that the data-parallel ranks train on at once, on the GPUs that are planned; 0 where
/// the script's degrees do not divide them.
[[nodiscard]] std::int64_t megatron_samples(const RecipePlace& place);
/// Returns the micro-batches of an optimizer step on one rank, of what global_batch_size says; 16 samples
/// without it. Source: ms-swift 4.6 swift/megatron/arguments/megatron_args.py global_batch_size.
[[nodiscard]] std::int64_t megatron_micro_batches(const RecipePlace& place);

// Translations.
[[nodiscard]] RecipeOptions distributed_optimizer(const RecipePlace& place);  ///< stage 1, or 0
[[nodiscard]] RecipeOptions recompute_granularity(const RecipePlace& place);
[[nodiscard]] RecipeOptions attention_backend(const RecipePlace& place);
[[nodiscard]] RecipeOptions loss_kernel(const RecipePlace& place);  ///< the key names the fused loss's kernel
[[nodiscard]] RecipeOptions global_batch(const RecipePlace& place);

}  // namespace zplan
