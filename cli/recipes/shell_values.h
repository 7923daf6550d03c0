#pragma once
// Arithmetic and patterns of a shell, over text whose variables are expanded.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace zplan {

/// Returns a variable's text, nothing where it is not known.
using ShellLookup = std::function<std::optional<std::string>(std::string_view name)>;

/// Returns the value of an expression of $(( )) or expr: 64-bit integers, C's operators. Nothing where it is
/// none, divides by zero, or a name is not known. An assignment has the value that it assigns, and assigns
/// nothing.
[[nodiscard]] std::optional<std::int64_t> shell_arithmetic(std::string_view text, const ShellLookup& lookup);

/// True if `text` matches the pattern with *, ? and […].
[[nodiscard]] bool shell_matches(std::string_view text, std::string_view pattern);

}  // namespace zplan
