#pragma once
// Long samples under DeepSpeed: Ulysses as accelerate sets it up, and ALST's tiles and checkpoints on the
// host.

#include "planner/question/framework.h"

namespace zplan {

/// Adds why DeepSpeed cannot divide or tile these samples, with what it says itself; a sentence each.
/// Source: DeepSpeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py.
void check_long_context(const Model& model, const Training& training, const Strategy& strategy,
                        Reasons& reasons);

/// What trains, and not as one would think.
[[nodiscard]] Reasons long_context_warnings(const Training& training, const Strategy& strategy);

}  // namespace zplan
