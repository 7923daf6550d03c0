#pragma once
// What zplan writes beside its report: the ds_config and the lines that launch it.

#include <string>
#include <string_view>
#include <vector>

#include "cli/report.h"
#include "models/base/json_reader.h"

namespace zplan {

/// {deepspeed, torchrun, swift, accelerate}
[[nodiscard]] Json launch_json(const Plan& plan, const Report& report);
/// The file that --emit writes, or what it would be called.
[[nodiscard]] std::string config_path(const Report& report);

/// Writes the whole file or leaves what was there: a temporary file beside it, then renamed.
/// Throws InputError naming `option` where that cannot be done.
void write_file(const std::string& path, const std::string& text, std::string_view option = "--emit");

}  // namespace zplan
