#pragma once
// The text of a recipe as a tree in which every key and value knows where it stands.

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/deepspeed/config/lint_text.h"

namespace zplan {

enum class RecipeKind { nothing, scalar, list, map };

struct RecipeEntry;

/// A value as PyYAML's safe_load sees it, but for its type: a scalar stays text until a key says what it
/// means. Plain whole numbers are written in decimal digits, whatever the file wrote.
struct RecipeValue {
  RecipeKind kind{RecipeKind::nothing};
  std::string text{};   ///< of a scalar
  bool quoted{};        ///< of a scalar: it is text whatever it looks like
  std::size_t line{1};  ///< where it begins, from 1
  std::size_t last_line{1};
  Span span{};  ///< in the file's bytes; of a block only where it begins is exact; empty: it stands nowhere
  /// Holds what of it a script leaves open, as it is written there: "$WORLD_SIZE".
  std::string open{};
  std::size_t source{};  ///< the file that it stands in: 0 the recipe's own, n the nth of RecipeText::sources
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
enum class RecipeSyntax { yaml, json, shell, toml };

/// Names a part of a script that is not followed.
struct RecipeNote {
  std::string what;  ///< as it is written
  std::size_t line{};
  std::string why;
};

/// A key that stands twice in its section.
struct RepeatedKey {
  std::string key;
  std::size_t line{}, later_line{};
};

struct RecipeText {
  std::string file;  ///< as it was given
  std::string text;
  RecipeSyntax syntax{};
  RecipeValue root{};  ///< a map; of a command line its flags without dashes
  /// The words of a command line in front of its first flag, such as "swift sft".
  std::vector<std::string> command{};
  std::size_t command_line{1};                 ///< the line on which the command begins
  std::size_t command_end{};                   ///< where in the text the command's last word ends
  std::optional<RecipeValue> config{};         ///< the path of a config that the command names
  std::optional<RecipeValue> launch_config{};  ///< the path of a config of accelerate's that launches it
  RecipeValue launch{};                  ///< a map: what accelerate launch says, in the keys of its config
  std::vector<std::string> launchers{};  ///< programs that launch the command: "torchrun", "deepspeed"
  std::vector<std::string> launcher{};   ///< keys of `root` that are torchrun's or deepspeed's
  std::map<std::string, std::string> files{};  ///< files that the script writes itself
  std::vector<RecipeNote> notes{};
  std::vector<std::string> sources{};   ///< other files that values stand in
  std::vector<RepeatedKey> repeated{};  ///< of which the later counts
};

/// Reads YAML 1.1 as libyaml does, which is PyYAML's grammar; JSON; TOML of a file whose name ends with
/// .toml; or a shell script whose last command has flags. Aliases and merge keys are replaced by what they
/// stand for. Throws InputError with file and line for anything else.
[[nodiscard]] RecipeText read_recipe_text(std::string text, const std::string& file);

/// Reads a shell script: of the first command that trains, else of the last command with flags, its flags:
/// `--key value…`, `--key=value`, `--key`. Its environment's variables are keys, too. Nothing where the text
/// has no such command. Throws InputError as follow_shell does.
[[nodiscard]] std::optional<RecipeText> read_shell_script(std::string_view text, const std::string& file);

/// Sets the value behind a dotted path; the last of equal keys counts.
void put_path(RecipeValue& map, std::string_view path, RecipeEntry entry);

/// Returns the text with the config that its command names below its flags. Throws InputError where that
/// file is not there.
[[nodiscard]] RecipeText with_named_config(RecipeText script);

/// True if a recipe may name `path` as a config: a file of at most 1 MiB below the recipe's folder, the
/// folder around that, or the working folder, links resolved; nothing of the kernel's.
[[nodiscard]] bool may_name(const RecipeText& recipe, const std::filesystem::path& path);

/// A file that a recipe names: what is in it, and where it is. Looked for among the files that the script
/// writes, in the working folder, and in the recipe's folder and those above it.
struct NamedFile {
  std::string path;
  std::string text;
  bool is_written{};  ///< by the script itself: it is not on the disk
};
[[nodiscard]] std::optional<NamedFile> find_named(const RecipeText& recipe, const std::string& name);

struct RecipeChange {
  std::string key;                   ///< dotted path
  std::optional<std::string> value;  ///< a number, a word or true; absent: the key goes
};

/// The text with the changes made: values are replaced where they stand, keys that go become comments (of
/// JSON and of a command line they are taken out), new keys stand at the end below a comment.
[[nodiscard]] std::string changed_recipe(const RecipeText& recipe, const std::vector<RecipeChange>& changes);

}  // namespace zplan
