#pragma once

#include "planner/question/framework.h"

namespace zplan {

/// Adds why DeepSpeed, in the training's release, cannot do this; a sentence each.
void check_deepspeed(const Model& model, const Training& training, const Strategy& strategy,
                     Reasons& reasons);

}  // namespace zplan
