#pragma once

#include <string>
#include <string_view>

#include "models/base/json_reader.h"

namespace zplan {

struct OptionSpec;

/// True of an option that the first page of --help has: one that most people use.
[[nodiscard]] bool is_common(const OptionSpec& option);

/// Returns the text of --help: examples, the options that most people use, and where the others are.
[[nodiscard]] std::string help_text(int width);

/// Returns a page of `zplan help`: a topic's options, a command's, or "all". Throws InputError("help", …) for
/// another word.
[[nodiscard]] std::string help_page(std::string_view topic, int width);

/// Returns the document of --help --json: the table of options (zplan.options/1).
[[nodiscard]] Json options_json();

/// "zplan 0.1.0 (108 models, 34 GPUs)"
[[nodiscard]] std::string version_text();

/// The completion script of a shell: "bash", "zsh" or "fish". Throws InputError for any other.
[[nodiscard]] std::string completion_script(std::string_view shell);

}  // namespace zplan
