#pragma once
// The syntax of a shell script: its words, and how commands are put together. Nothing is expanded here.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/deepspeed/config/lint_text.h"

namespace zplan {

/// A word as it is written, with its quotes.
struct ShellWord {
  std::string text;
  std::size_t line{};
  Span span{};  ///< in the script's bytes; empty: nowhere
};

struct ShellRedirect {
  std::string sign;        ///< ">", ">>", "<", "<<", "<<<", …
  ShellWord target;        ///< of a here-document its end
  std::size_t document{};  ///< of a here-document: its place among the script's
  bool is_here_document{};
};

struct ShellNode;
using ShellList = std::vector<ShellNode>;

enum class ShellKind { command, group, branch, loop_over, loop_while, choice, function };

/// Says how a command follows the one in front of it.
enum class ShellLink { then, and_then, or_else, piped };

struct ShellNode {
  ShellKind kind{};
  ShellLink link{};
  bool negated{};
  std::size_t line{};
  /// Holds the words of a command; of a loop its name and list; of a choice the word; of a function its name.
  std::vector<ShellWord> words{};
  std::vector<ShellRedirect> redirects{};
  /// Holds of a branch condition, body, …, and the last body; of a loop condition and body, or the body; of a
  /// choice its bodies; of a group and a function the body.
  std::vector<ShellList> parts{};
  std::vector<std::vector<ShellWord>> patterns{};  ///< of a choice, for each body
};

struct ShellSyntax {
  ShellList commands;
  struct Document {
    std::string text;
    bool expands{};  ///< its end is not quoted
    std::size_t line{};
  };
  std::vector<Document> documents;
  std::optional<std::size_t> open_quote;  ///< the line on which a quote begins that nothing closes
};

/// Reads a script. What is no shell syntax is skipped. `place` and `first_line`: where the text begins; a
/// text that is not in the script has no place.
[[nodiscard]] ShellSyntax parse_shell(std::string_view text, std::size_t first_line,
                                      std::optional<std::size_t> place);

/// True for letters, digits and "_", of which names consist.
[[nodiscard]] bool is_name_character(char c);

/// Returns where the construct ends that begins at `at`: a quote, $(…), ${…}, `…` or (…).
[[nodiscard]] std::size_t shell_end(std::string_view text, std::size_t at, std::size_t depth = 0);

}  // namespace zplan
