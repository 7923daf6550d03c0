#pragma once

#include "planner/frameworks/launch/launch.h"

namespace zplan {

/// Returns the lines that start a plan under DeepSpeed. `config` is the path of its ds_config.
[[nodiscard]] Launch deepspeed_launch(const Plan& plan, const Question& question, const std::string& config);

}  // namespace zplan
