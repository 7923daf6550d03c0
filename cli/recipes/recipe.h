#pragma once
// Reads a trainer's config as options of the command line.
//
//   text ─► tree with lines ─► format, by its keys ─► a row for each key ─► options ─► Options
//
// So a recipe meets the same checks, messages and defaults as what is typed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/base/values.h"
#include "models/base/names.h"

namespace zplan {

/// The project that reads the config.
enum class RecipeFormat {
  axolotl,
  llama_factory,
  llama_factory_v1,
  trl,
  transformers,
  torchtune,
  swift,
  swift_megatron,
  megatron_lm,
  accelerate,
  openrlhf,
  verl,
  torchtitan
};
template <>
struct EnumNames<RecipeFormat> {
  static constexpr std::array<std::pair<RecipeFormat, std::string_view>, 13> table{
      {{RecipeFormat::axolotl, "axolotl"},
       {RecipeFormat::llama_factory, "llama-factory"},
       {RecipeFormat::llama_factory_v1, "llama-factory-v1"},
       {RecipeFormat::trl, "trl"},
       {RecipeFormat::transformers, "transformers"},
       {RecipeFormat::torchtune, "torchtune"},
       {RecipeFormat::swift, "swift"},
       {RecipeFormat::swift_megatron, "swift-megatron"},
       {RecipeFormat::megatron_lm, "megatron-lm"},
       {RecipeFormat::accelerate, "accelerate"},
       {RecipeFormat::openrlhf, "openrlhf"},
       {RecipeFormat::verl, "verl"},
       {RecipeFormat::torchtitan, "torchtitan"}}};
};

/// Options of zplan that keys of a recipe stand for.
using RecipeOptions = OptionChanges;

/// A key that says something of the plan.
struct RecipeSetting {
  std::string key;        ///< "fsdp_config.offload_params"
  std::size_t line{};     ///< 0: not in the file, the trainer's own default
  std::string value;      ///< as it is written
  RecipeOptions options;  ///< empty: as zplan plans anyway
  std::string unused;     ///< why it was not used; empty: it was
  std::string file{};     ///< where the line is; empty: in the recipe's own file
  bool operator==(const RecipeSetting&) const = default;
};

/// A key of which no plan knows.
struct RecipeKey {
  std::string key;
  std::size_t line{};
  std::string why;  ///< what it would change; empty: nobody knows the key
  bool operator==(const RecipeKey&) const = default;
};

struct Recipe {
  std::string file;
  RecipeFormat format{};
  std::vector<RecipeSetting> settings;
  std::vector<RecipeKey> not_planned;   ///< keys that matter and are not planned
  std::vector<RecipeKey> unknown;       ///< neither the project's parser nor zplan knows them
  std::vector<std::string> irrelevant;  ///< keys of data, logging and the like
  /// Contents of a DeepSpeed config that stands in the recipe itself, in JSON.
  std::optional<std::string> ds_config;
  /// The command that starts it: {file} stands for its file, {gpus} for the processes of a node; empty where
  /// its keys do not say which.
  std::string start{};
  std::vector<Recipe> launched_by{};  ///< what launches it: accelerate's config and flags
  /// A model's config.json that follows from the recipe's own sizes or from how its trainer builds a known
  /// model; --model names it.
  std::optional<std::string> model_config{};
  bool operator==(const Recipe&) const = default;
};

/// True if several settings of the option are one list. Of other options the later setting counts.
[[nodiscard]] bool adds_up(std::string_view option);

/// Holds what the command line gives beside the recipe.
struct RecipeAsked {
  std::optional<std::int64_t> gpus;
  bool has_model{};
  std::string model{};  ///< as it was typed
  /// Options that were typed: what the recipe says of them is not looked into.
  std::vector<std::string> given;
};

/// Reads the recipe in `text`. Throws InputError "file:line: key: value; accepted" for what the format or
/// zplan does not take.
[[nodiscard]] Recipe read_recipe(std::string text, const std::string& file, const RecipeAsked& asked);

/// Returns the trainer's own command that starts the recipes' training, such as "axolotl train qlora.yaml";
/// empty where none is known. An accelerate config among them launches it.
[[nodiscard]] std::string recipe_command(const std::vector<Recipe>& recipes, std::int64_t gpus,
                                         std::string_view objective);

/// The trainers whose defaults a format implies, as --trainer takes them; empty: none.
[[nodiscard]] std::string_view trainers_of(RecipeFormat format);

}  // namespace zplan
