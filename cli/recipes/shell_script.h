#pragma once
// Expands a shell script as a shell would that finds an empty environment. Nothing is run, and no file is
// read.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/deepspeed/config/lint_text.h"

namespace zplan {

/// Names the part of a word that the script does not say.
struct ShellOpen {
  std::string what;      ///< as it is written: "$WORLD_SIZE", "$(nvidia-smi -L | wc -l)"
  std::string variable;  ///< "WORLD_SIZE"; empty: no variable that could be set
};

/// A word of a command, expanded.
struct ShellField {
  std::string text{};               ///< what is open stands in it as it is written
  std::optional<ShellOpen> open{};  ///< the first of what is open in it
  bool is_bare{};                   ///< all of it is an open variable without quotes, which may be no word
  std::size_t line{};
  Span span{};  ///< in the script's bytes; empty: it stands in none
};

struct ShellCall {
  std::vector<ShellField> words;
  std::map<std::string, ShellField> environment;  ///< exported, or in front of the command
  std::size_t line{};
};

struct ShellScript {
  std::vector<ShellCall> calls;              ///< in order; the last is the one that ended the reading
  std::map<std::string, std::string> files;  ///< what the script writes by here-documents and echo
  bool was_ended{};
};

/// Follows the script until `is_wanted` takes a command. Of a branch whose condition nobody knows the first
/// is followed, a loop whose list nobody knows once. Throws InputError for a quote that nothing closes, and
/// where the script expands to too much.
[[nodiscard]] ShellScript follow_shell(std::string_view text, const std::string& file,
                                       const std::function<bool(const ShellCall&)>& is_wanted);

}  // namespace zplan
