#pragma once
// Words of a POSIX shell.

#include <string>
#include <string_view>

namespace zplan {

/// Returns an argument as a POSIX shell takes it: in quotes where it needs them.
[[nodiscard]] std::string shell_quote(std::string_view argument);

}  // namespace zplan
