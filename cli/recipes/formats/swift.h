#pragma once
// Rows that ms-swift's commands over transformers and over Megatron-Core share: objectives beside next
// tokens, and parts of image-text models.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recipes/recipe_table.h"

namespace zplan::swift {

/// Returns the subcommand that a script runs: "sft", "rlhf"; empty of a config.
[[nodiscard]] std::string command_of(const RecipeText& text);
/// Returns what rlhf_type says, dpo where it says nothing; empty: no preference or reinforcement. args.json
/// of other runs has the default, too.
[[nodiscard]] std::string preference_of(const RecipePlace& place);
/// A key's whole number, or what stands for it.
[[nodiscard]] std::int64_t whole(const RecipePlace& place, std::string_view key, std::int64_t otherwise);
[[nodiscard]] bool is_zero(const std::string& number);
[[nodiscard]] bool is_reinforcement(const RecipePlace& place);
/// Returns the model that is planned: the typed one, or the recipe's.
[[nodiscard]] std::string model_of(const RecipePlace& place);
/// Returns how the run trains: by tuner_type, or what the command does without it. Under Megatron-Core a
/// folder of adapters makes it a run of adapters. Source: ms-swift 4.6
/// swift/megatron/arguments/megatron_args.py __post_init__.
[[nodiscard]] std::string tuner_of(const RecipePlace& place);
[[nodiscard]] bool trains_all_weights(const RecipePlace& place);
/// GPUs of the run as far as they are known.
[[nodiscard]] std::int64_t gpus_of(const RecipePlace& place);

/// Rows of the keys of objectives.
[[nodiscard]] std::vector<RecipeRow> objective_rows();
// Translations.
[[nodiscard]] RecipeOptions default_preference(const RecipePlace& place);
[[nodiscard]] RecipeOptions reinforcement(const RecipePlace& place);
[[nodiscard]] RecipeOptions sample_length(const RecipePlace& place);
[[nodiscard]] RecipeOptions liger_of_answers(const RecipePlace& place);

/// Tower and projector of an image-text model are frozen unless a key says otherwise; with adapters they get
/// none. Source: tuner_args.py _init_multimodal_full; pipelines/train/tuner.py get_target_modules;
/// swift/megatron/arguments/megatron_args.py MegatronTunerMixin.
[[nodiscard]] RecipeOptions frozen_parts(const RecipePlace& place);
/// Rows of the keys of image-text models: frozen parts, and sizes of images.
[[nodiscard]] std::vector<RecipeRow> image_rows();

}  // namespace zplan::swift
