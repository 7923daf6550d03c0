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
  [[nodiscard]] bool is_given(std::string_view option) const;
  /// Adds the key to those that matter and are not planned.
  void not_planned(std::string why) const;
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
  /// Returns its options where they follow from other keys, which are read already.
  TranslateRecipe made{};
};

/// A command of a trainer or of a tool beside it.
struct RecipeCommand {
  /// Program and subcommand: "swift sft". The program is found with its folder, too; "swift.cli.sft" and
  /// "swift/cli/sft.py" stand for "swift sft".
  std::string_view words;
  /// Says what it does where it trains nothing: "runs a model". Empty: it trains.
  std::string_view does{};
  /// Names what it trains with where no plan knows that: "Megatron-Core".
  std::string_view not_planned{};
  /// Holds where it names a config: "first", the first word behind `words`; a flag such as "--config"; empty:
  /// nowhere.
  std::string_view config{};
};

/// Keys that tell a recipe which trains nothing.
struct NoTraining {
  std::string_view key;       ///< dotted path of a key that is there; empty: whatever is there
  std::string_view values{};  ///< separated by blanks: its value is one of them; empty: any that is not off
  std::string_view unless{};  ///< keys separated by blanks, none of which is on
  std::string_view does{};    ///< what it does: "merges adapters into a model"
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
  std::vector<RecipeCommand> commands{};
  std::vector<NoTraining> trains_nothing{};
  /// Names what trains: "a command that trains (swift pt, sft, rlhf)"; empty: "a config of a training".
  std::string_view trains{};
  /// Starts a training by a file: "axolotl train {file}"; {gpus} and {objective} stand for these, too.
  std::string_view launch{};
  /// Returns `launch` where it follows from what the recipe says; null: it is always the same.
  std::string (*launches)(const Recipe& recipe, std::int64_t gpus, std::string_view objective){};
  bool has_references{};  ///< values such as "${batch_size}" stand for another key's (OmegaConf)
  /// Returns Recipe::start of a config.
  std::string (*start)(const RecipeText& text){};
};

// Translations.
[[nodiscard]] RecipeOptions as_text(const RecipePlace& place);     ///< the scalar as it stands; null: nothing
[[nodiscard]] RecipeOptions as_flag(const RecipePlace& place);     ///< true: the flag is given
[[nodiscard]] RecipeOptions as_word(const RecipePlace& place);     ///< by row.words
[[nodiscard]] RecipeOptions as_list(const RecipePlace& place);     ///< a list, or words separated by commas
[[nodiscard]] RecipeOptions as_targets(const RecipePlace& place);  ///< modules with adapters
/// Processes of a node, as torchrun and its like count them: --gpus of all nodes.
[[nodiscard]] RecipeOptions as_processes(const RecipePlace& place);
[[nodiscard]] RecipeOptions as_nodes(const RecipePlace& place);
/// GPUs that deepspeed's --include lists: "worker-0:0,1@worker-1:2,3".
[[nodiscard]] RecipeOptions as_included(const RecipePlace& place);
[[nodiscard]] RecipeOptions as_ds_config(const RecipePlace& place);  ///< a DeepSpeed config: path or contents
[[nodiscard]] RecipeOptions as_optimizer(const RecipePlace& place);  ///< names of the HF Trainer's --optim
[[nodiscard]] RecipeOptions as_allocator(const RecipePlace& place);  ///< PYTORCH_CUDA_ALLOC_CONF
[[nodiscard]] RecipeOptions as_model(const RecipePlace& place);  ///< a path is relative to the working folder
/// Second row of the key that names the model, behind those of the method: whether its weights are packed
/// already (translate.cpp).
[[nodiscard]] RecipeOptions as_packed_model(const RecipePlace& place);

/// Parts of an image-text model of the catalogue that can be frozen.
struct ImageTextParts {
  bool has_tower{}, has_projector{};
};
[[nodiscard]] ImageTextParts image_text_parts(const std::string& model);
/// Returns the side in pixels of a square image of `pixels` pixels, where the catalogue's model can be
/// planned with it and no more than `most_tokens` tokens stand for it.
[[nodiscard]] std::optional<std::int64_t> square_image(const std::string& model, std::int64_t pixels,
                                                       std::int64_t most_tokens);
/// Returns how many tokens the vocabulary of the catalogue's model has; nothing for a name that it has not.
[[nodiscard]] std::optional<std::int64_t> known_vocabulary(const std::string& model);
/// Returns how many decoder layers the catalogue's model has; nothing for a name that it has not.
[[nodiscard]] std::optional<std::int64_t> known_layers(const std::string& model);
/// True if the recipe trains LoRA adapters, which leave the other weights alone.
[[nodiscard]] bool trains_adapters(const RecipePlace& place);

/// A name without the ending that says how its weights are packed: "Qwen/Qwen3-8B" of "Qwen/Qwen3-8B-AWQ".
[[nodiscard]] std::string unpacked_name(const std::string& model);
/// HQQ as trainers call it while a model is loaded. The key of `place` says how many bits.
[[nodiscard]] RecipeOptions hqq_bits(const RecipePlace& place);

[[nodiscard]] const RecipeTable& axolotl_table();
[[nodiscard]] const RecipeTable& llama_factory_table();
[[nodiscard]] const RecipeTable& llama_factory_v1_table();
[[nodiscard]] const RecipeTable& trl_table();
[[nodiscard]] const RecipeTable& transformers_table();
[[nodiscard]] const RecipeTable& torchtune_table();
[[nodiscard]] const RecipeTable& swift_table();
[[nodiscard]] const RecipeTable& swift_megatron_table();
[[nodiscard]] const RecipeTable& megatron_lm_table();
[[nodiscard]] const RecipeTable& accelerate_table();
[[nodiscard]] const RecipeTable& openrlhf_table();
[[nodiscard]] const RecipeTable& verl_table();
[[nodiscard]] const RecipeTable& torchtitan_table();

[[nodiscard]] const RecipeTable& recipe_table(RecipeFormat format);

/// Returns the file that the value stands in.
[[nodiscard]] std::string source_of(const RecipeText& text, const RecipeValue& value);

/// A command line's row, and whose it is.
struct FoundCommand {
  RecipeFormat format{};
  const RecipeCommand* command{};
};
/// Returns the row that the words of a command line begin with, behind launchers; nothing for a command of
/// no trainer.
[[nodiscard]] std::optional<FoundCommand> find_command(const std::vector<std::string>& words);

/// Throws InputError where the command trains nothing, or with what is not planned: "run.sh:3: swift infer
/// runs a model, it trains nothing; accepted: a command that trains".
void refuse_no_training(const RecipeText& text);
/// Throws InputError where the keys of a format's file tell that it trains nothing.
void refuse_no_training(const RecipeText& text, const RecipeTable& table);

/// True if the value is false, 0, none or empty.
[[nodiscard]] bool is_off(const RecipeValue& value);

/// Rows of transformers' TrainingArguments, which most formats have as they are.
[[nodiscard]] std::vector<RecipeRow> training_arguments_rows();

/// Rows of fsdp_config as TrainingArguments and axolotl take it: each key with and without "fsdp_".
[[nodiscard]] std::vector<RecipeRow> fsdp_section_rows();

/// True if the project's own parser has a field of the path's last part. Source: known_keys.json.
[[nodiscard]] bool is_known_key(RecipeFormat format, std::string_view path);

}  // namespace zplan
