#pragma once
// The values that a plan used for options that were not given.

#include <QString>
#include <string_view>

#include "cli/options/options.h"
#include "gui/session/planned.h"

namespace zplan::gui {

/// Returns the used value as it would be typed; empty where it is unknown.
[[nodiscard]] QString used_value(std::string_view option, const Planned& planned);

/// The default that the option's help names; empty where it names none.
[[nodiscard]] QString stated_default(const OptionSpec& spec);

}  // namespace zplan::gui
