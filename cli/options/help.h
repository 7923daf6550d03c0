#pragma once

#include <string>
#include <string_view>

#include "cli/environment.h"

namespace zplan {

/// What --help prints: commands, options by group, examples.
[[nodiscard]] std::string help_text(int width);

/// "zplan 0.1.0 (108 models, 34 GPUs)"
[[nodiscard]] std::string version_text();

/// The completion script of a shell: "bash", "zsh" or "fish". Throws InputError for any other.
[[nodiscard]] std::string completion_script(std::string_view shell);

}  // namespace zplan
