#pragma once
// zplan gui: hands over to zplan-gui, the window, which lies beside this program where it was built with
// Qt 6.

#include <string>
#include <vector>

namespace zplan {

/// Whether the arguments begin with "gui".
[[nodiscard]] bool is_gui(const std::vector<std::string>& arguments);

/// Becomes zplan-gui with the words behind "gui". Throws InputError where that is not there.
[[noreturn]] void gui_command(const std::vector<std::string>& arguments);

}  // namespace zplan
