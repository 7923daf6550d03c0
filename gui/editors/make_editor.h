#pragma once
// Which editor an option has.

#include "cli/environment.h"
#include "cli/options/options.h"
#include "gui/editors/value_editor.h"

namespace zplan::gui {

[[nodiscard]] ValueEditor* make_editor(const OptionSpec& spec, const Environment& environment);

}  // namespace zplan::gui
