#pragma once
// What a scenario's arguments say about an option.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zplan::gui {

/// The value that was given last, `kFlagGiven` for a flag; nothing where the option is not among them.
[[nodiscard]] std::optional<std::string> given_value(const std::vector<std::string>& arguments,
                                                     std::string_view option);

}  // namespace zplan::gui
