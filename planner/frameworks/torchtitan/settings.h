#pragma once

#include <string>
#include <utility>
#include <vector>

namespace zplan {

struct Plan;
struct Question;

}  // namespace zplan

namespace zplan::titan {

/// A setting of torchtitan's command line, and its value; empty for a switch.
using Setting = std::pair<std::string, std::string>;

/// Returns the settings that run a plan: all that the plan assumes. Activation checkpointing is the last
/// one, a subcommand that ends the options. Source: torchtitan 0.3.0 config/configs.py.
[[nodiscard]] std::vector<Setting> settings_of(const Plan& plan, const Question& question);

}  // namespace zplan::titan
