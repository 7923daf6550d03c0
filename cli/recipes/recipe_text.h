#pragma once
// The text of a recipe as a tree in which every key and value knows where it stands.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/deepspeed/config/lint_text.h"

namespace zplan {

enum class RecipeKind { nothing, scalar, list, map };

struct RecipeEntry;

/// A value as PyYAML's safe_load sees it, but for its type: a scalar stays text until a key says what it
/// means.
struct RecipeValue {
  RecipeKind kind{RecipeKind::nothing};
  std::string text{};   ///< of a scalar
  bool quoted{};        ///< of a scalar: it is text whatever it looks like
  std::size_t line{1};  ///< where it begins, from 1
  std::size_t last_line{1};
  Span span{};                       ///< in the file's bytes; of a block only where it begins is exact
  std::vector<RecipeEntry> entries;  ///< of a map, in the file's order
  std::vector<RecipeValue> items;    ///< of a list

  /// The value of `key`; null where there is none.
  [[nodiscard]] const RecipeValue* find(std::string_view key) const;
  /// Returns the value behind a dotted path, or null: "fsdp_config.offload_params".
  [[nodiscard]] const RecipeValue* find_path(std::string_view path) const;
};

struct RecipeEntry {
  std::string key;
  std::size_t line{1};
  Span key_span{};
  RecipeValue value;
};

/// The syntax of a recipe.
enum class RecipeSyntax { yaml, json, shell };

struct RecipeText {
  std::string file;  ///< as it was given
  std::string text;
  RecipeSyntax syntax{};
  RecipeValue root{};  ///< a map; of a command line its flags without dashes
  /// The words of a command line in front of its first flag, such as "swift sft".
  std::vector<std::string> command{};
  std::size_t command_line{1};  ///< the line on which the command begins
};

/// Reads YAML 1.1 as libyaml does, which is PyYAML's grammar; JSON; or a shell script whose last command has
/// flags. Aliases are replaced by what they stand for. Throws InputError with file and line for anything
/// else.
[[nodiscard]] RecipeText read_recipe_text(std::string text, const std::string& file);

struct ShellFlags {
  std::vector<std::string> command;  ///< words in front of the first flag: "swift", "sft"
  std::size_t line{1};               ///< where the command begins
  RecipeValue flags;  ///< keys without dashes; NAME=value in front of the command is a key, too
};

/// The flags of the last command of a shell script that has such: `--key value…`, `--key=value`, `--key`.
/// Quotes and lines that end in a backslash are understood, expansions are not: a value with "$" stays as it
/// is. Nothing where no line begins a command with flags. Throws InputError for a quote that nothing closes.
[[nodiscard]] std::optional<ShellFlags> shell_flags(std::string_view text, const std::string& file);

struct RecipeChange {
  std::string key;                   ///< dotted path
  std::optional<std::string> value;  ///< a number, a word or true; absent: the key goes
};

/// The text with the changes made: values are replaced where they stand, keys that go become comments (of
/// JSON and of a command line they are taken out), new keys stand at the end below a comment.
[[nodiscard]] std::string changed_recipe(const RecipeText& recipe, const std::vector<RecipeChange>& changes);

}  // namespace zplan
