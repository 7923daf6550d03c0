#pragma once
// What a plan was made with where an option was not given.

#include <QString>
#include <string_view>

#include "cli/options/options.h"
#include "gui/session/planned.h"

namespace zplan::gui {

/// As the option would be given; empty where that cannot be said.
[[nodiscard]] QString used_value(std::string_view option, const Planned& planned);

/// The default that the option's help names; empty where it names none.
[[nodiscard]] QString stated_default(const OptionSpec& spec);

}  // namespace zplan::gui
