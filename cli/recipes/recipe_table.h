#pragma once
// The table of a format: which key stands for which option, and how its value is translated.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/recipes/recipe.h"
#include "cli/recipes/recipe_text.h"

namespace zplan {

struct RecipeRow;

/// A key of the file that is being read.
struct RecipePlace {
  const RecipeText& text;
  const RecipeRow& row;
  const RecipeValue& value;
  std::string folder;  ///< that paths in the recipe are relative to
  const RecipeAsked& asked;
  Recipe& recipe;

  /// "file:12: key: found; accepted".
  [[noreturn]] void fail(const std::string& found, const std::string& accepted) const;
  /// A value that is no list or map.
  [[nodiscard]] std::string scalar() const;
  /// true and false, as YAML 1.1 spells them, or nothing.
  [[nodiscard]] std::optional<bool> boolean() const;
  /// Another key's scalar, empty where it is not there or null.
  [[nodiscard]] std::string other(std::string_view path) const;
  [[nodiscard]] bool is_on(std::string_view path) const;
};

using TranslateRecipe = RecipeOptions (*)(const RecipePlace& place);

struct RecipeRow {
  std::string_view key;     ///< dotted path
  std::string_view option;  ///< "--lora-rank"
  TranslateRecipe translate{};
  /// For `as_word`: words of the file, each with the value of `option`, or with typed options, or with
  /// nothing.
  std::vector<std::pair<std::string_view, std::string_view>> words{};
  /// A key that no plan knows: what it would change. Only where its value is neither off nor empty.
  std::string_view not_planned{};
};

/// A default of the trainer: it holds where no key sets the option.
struct RecipeDefault {
  std::string_view key, option, value;
};

struct RecipeTable {
  RecipeFormat format{};
  std::string_view title;     ///< "LLaMA-Factory"
  std::string_view trainers;  ///< of --trainer
  std::vector<RecipeDefault> defaults;
  /// In order: of two that say the same option the later counts. A key's second row is shown where it says
  /// something.
  std::vector<RecipeRow> rows;
  /// Any one of these keys tells the format; empty: another rule (see format_of).
  std::vector<std::string_view> telling;
};

// Translations.
[[nodiscard]] RecipeOptions as_text(const RecipePlace& place);     ///< the scalar as it stands; null: nothing
[[nodiscard]] RecipeOptions as_flag(const RecipePlace& place);     ///< true: the flag is given
[[nodiscard]] RecipeOptions as_word(const RecipePlace& place);     ///< by row.words
[[nodiscard]] RecipeOptions as_list(const RecipePlace& place);     ///< a list, or words separated by commas
[[nodiscard]] RecipeOptions as_targets(const RecipePlace& place);  ///< modules with adapters
[[nodiscard]] RecipeOptions as_ds_config(const RecipePlace& place);  ///< a DeepSpeed config: path or contents
[[nodiscard]] RecipeOptions as_optimizer(const RecipePlace& place);  ///< names of the HF Trainer's --optim
[[nodiscard]] RecipeOptions as_model(const RecipePlace& place);  ///< a path is relative to the working folder
/// Second row of the key that names the model, behind those of the method: whether its weights are packed
/// already (packed_models.cpp).
[[nodiscard]] RecipeOptions as_packed_model(const RecipePlace& place);

/// A name without the ending that says how its weights are packed: "Qwen/Qwen3-8B" of "Qwen/Qwen3-8B-AWQ".
[[nodiscard]] std::string unpacked_name(const std::string& model);
/// HQQ as trainers call it while a model is loaded. The key of `place` says how many bits.
[[nodiscard]] RecipeOptions hqq_bits(const RecipePlace& place);

[[nodiscard]] const RecipeTable& axolotl_table();
[[nodiscard]] const RecipeTable& llama_factory_table();
[[nodiscard]] const RecipeTable& trl_table();
[[nodiscard]] const RecipeTable& transformers_table();
[[nodiscard]] const RecipeTable& torchtune_table();
[[nodiscard]] const RecipeTable& swift_table();
[[nodiscard]] const RecipeTable& accelerate_table();

[[nodiscard]] const RecipeTable& recipe_table(RecipeFormat format);

/// Rows of transformers' TrainingArguments, which most formats have as they are.
[[nodiscard]] std::vector<RecipeRow> training_arguments_rows();

/// True if the project's own parser has a field of the path's last part. Source: known_keys.json.
[[nodiscard]] bool is_known_key(RecipeFormat format, std::string_view path);

}  // namespace zplan
