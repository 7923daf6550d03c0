#pragma once

#include "planner/question/framework.h"

namespace zplan {

/// Adds why DeepSpeed, in the training's release, cannot do this; a sentence each.
void check_deepspeed(const Model& model, const Training& training, const Strategy& strategy,
                     Reasons& reasons);

/// Adds why DeepSpeed cannot divide or tile long samples, with its own words, a sentence each: Ulysses as
/// accelerate sets it up, ALST's tiles and checkpoints on the host.
/// Source: DeepSpeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py.
void check_long_context(const Model& model, const Training& training, const Strategy& strategy,
                        Reasons& reasons);

/// Returns warnings of long samples that train, but not as expected.
[[nodiscard]] Reasons long_context_warnings(const Training& training, const Strategy& strategy);

}  // namespace zplan
