#pragma once

#include <string>

namespace zplan {

struct Plan;
struct Question;

/// torchtitan 0.3's trainer with the arguments of a plan under FSDP2 or DDP; empty where torchtitan cannot
/// run it: it has no adapters. MODULE and CONFIG stand for the reader's own. Source: torchtitan 0.3
/// config/configs.py, config/manager.py, distributed/activation_checkpoint.py.
[[nodiscard]] std::string torchtitan_line(const Plan& plan, const Question& question);

}  // namespace zplan
