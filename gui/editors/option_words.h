#pragma once
// How options are called in the window. What the command line says of them is translated like all else.

#include <QString>

#include "cli/options/options.h"

namespace zplan::gui {

/// "Sequence length", of an option that has no such name "--some-option" as "some option".
[[nodiscard]] QString option_label(const OptionSpec& spec);
/// One sentence: the option's help, or what its label says.
[[nodiscard]] QString option_help(const OptionSpec& spec);
/// "--seq S"
[[nodiscard]] QString option_usage(const OptionSpec& spec);
[[nodiscard]] QString group_label(std::string_view group);

}  // namespace zplan::gui
