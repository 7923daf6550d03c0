#pragma once

#include <string>
#include <vector>

#include "cli/options/options.h"

namespace zplan {

/// Pins in `question` what the file of --ds-config says; options fill what it leaves open. Returns its
/// warnings. Throws InputError where the file cannot be read or an option contradicts it, naming both places.
[[nodiscard]] std::vector<std::string> apply_ds_config(const Options& options, Question& question);

}  // namespace zplan
