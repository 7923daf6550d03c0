#pragma once
// The command that was typed, changed and quoted for typing again.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zplan {

/// The value of a flag that is to be given.
inline constexpr std::string_view kFlagGiven = "\x01";

/// `arguments` with `changes` in place of whatever they said about these options; an empty value: the option
/// is left out. Flags are left out alone, options with the value behind them.
[[nodiscard]] std::vector<std::string> with_options(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& changes);

/// "zplan --model 8B …" for a POSIX shell.
[[nodiscard]] std::string command_line(const std::vector<std::string>& arguments);

}  // namespace zplan
