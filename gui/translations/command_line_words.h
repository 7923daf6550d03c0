#pragma once

#include <vector>

namespace zplan::gui {

/// Texts of the command line's tables that are translated for the window, English as they are there.
[[nodiscard]] const std::vector<const char*>& command_line_words();

}  // namespace zplan::gui
