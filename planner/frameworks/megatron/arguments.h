#pragma once

#include <string>
#include <utility>
#include <vector>

namespace zplan {

struct Plan;
struct Question;

}  // namespace zplan

namespace zplan::megatron {

/// An argument with its dashes, and its value; empty for a switch.
using Argument = std::pair<std::string, std::string>;

/// Returns the arguments of pretrain_gpt.py that run a plan: all that the plan assumes of the script. Source:
/// Megatron-Core 0.19.2 training/arguments.py.
[[nodiscard]] std::vector<Argument> arguments_of(const Plan& plan, const Question& question);

/// Returns the argument as a shell takes it: "--recompute-modules core_attn mlp". Words of a value are quoted
/// where they need it, as layouts of stages do.
[[nodiscard]] std::string shell_text(const Argument& argument);

}  // namespace zplan::megatron
