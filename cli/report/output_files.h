#pragma once
// What zplan writes beside its report: the plan's config and the lines that launch it.

#include <string>
#include <string_view>
#include <vector>

#include "cli/report/report.h"
#include "models/base/json_reader.h"
#include "models/base/files.h"

namespace zplan {

/// The line of {deepspeed, torchrun, swift, accelerate, torchtitan}, null where a launcher has none for the
/// plan, and as "launcher" the name of the one that next_line() is.
[[nodiscard]] Json launch_json(const Plan& plan, const Report& report);
/// The line that starts the plan with the config as --config-style has it written.
[[nodiscard]] std::string next_line(const Plan& plan, const Report& report);
/// The file that --emit writes, or what it would be called.
[[nodiscard]] std::string config_path(const Plan& plan, const Report& report);
/// What --emit writes for the plan: a ds_config; accelerate's config for FSDP2, as YAML or, in a file named
/// *.json, as JSON; empty for plain PyTorch, which has none.
[[nodiscard]] std::string config_text(const Plan& plan, const Report& report);
/// The same as JSON; null where the plan's framework has another kind of config or none.
[[nodiscard]] Json ds_config_json(const Plan& plan, const Report& report);
[[nodiscard]] Json fsdp_config_json(const Plan& plan, const Report& report);
/// What the config cannot say, one sentence each.
[[nodiscard]] std::vector<std::string> config_notes(const Plan& plan, const Report& report);

}  // namespace zplan
