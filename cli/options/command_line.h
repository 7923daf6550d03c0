#pragma once
// The command that was typed, changed and quoted for typing again.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/base/values.h"

namespace zplan {

/// An option as it was typed: "--seq 4096", "--seq=4096", "--fused-loss"; a word that is none by itself.
/// Names and values are views of the arguments.
struct GivenOption {
  std::string_view name;
  std::string_view value;  ///< `kFlagGiven` where none belongs to it; empty where it is missing
  std::size_t first{};     ///< its place among the words
  std::size_t words{1};
};
/// The value behind an option belongs to it, even one that is called like another option.
[[nodiscard]] std::vector<GivenOption> given_options(const std::vector<std::string>& arguments);

/// `arguments` with names of several words as one: --gpu A100 80GB as --gpu "A100 80GB". Words are joined
/// where they make a name that is known, and none of them is a command.
[[nodiscard]] std::vector<std::string> with_joined_names(const std::vector<std::string>& arguments);

/// The value that was given last, `kFlagGiven` for a flag; nothing where the option is not among them.
[[nodiscard]] std::optional<std::string> given_value(const std::vector<std::string>& arguments,
                                                     std::string_view option);

/// `arguments` with `changes` in place of whatever they said about these options; an empty value: the option
/// is left out. Flags are left out alone, options with the value behind them.
[[nodiscard]] std::vector<std::string> with_options(const std::vector<std::string>& arguments,
                                                    const OptionChanges& changes);

/// "zplan --model 8B …" for a POSIX shell.
[[nodiscard]] std::string command_line(const std::vector<std::string>& arguments);

/// Returns the `zplan plan` command line of a `search` or `fit` command, with `changes` applied.
[[nodiscard]] std::string plan_command_line(const std::vector<std::string>& arguments,
                                            const OptionChanges& changes);

}  // namespace zplan
