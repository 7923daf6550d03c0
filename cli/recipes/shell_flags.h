#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recipes/recipe_text.h"

namespace zplan {

struct ShellFlags {
  std::vector<std::string> command;  ///< words in front of the first flag: "swift", "sft"
  RecipeValue flags;  ///< keys without dashes; NAME=value in front of the command is a key, too
};

/// The flags of the last command of a shell script that has such: `--key value…`, `--key=value`, `--key`.
/// Quotes and lines that end in a backslash are understood, expansions are not: a value with "$" stays as it
/// is. Nothing where no line begins a command with flags. Throws InputError for a quote that nothing closes.
[[nodiscard]] std::optional<ShellFlags> shell_flags(std::string_view text, const std::string& file);

}  // namespace zplan
