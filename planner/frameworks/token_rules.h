#pragma once
// What goes with ranks that divide a sample's tokens, with tiles, and with checkpoints on the host: rules of
// DeepSpeed's Ulysses and ALST, and of torch's context parallelism as accelerate sets it up.

#include "planner/frameworks/framework.h"

namespace zplan {

/// Adds why it cannot be trained, with what the software itself says. Source: DeepSpeed 0.19.8
/// runtime/sequence_parallel/ulysses_sp.py; accelerate 1.15 parallelism_config.py; torch 2.11
/// distributed/tensor/experimental/_context_parallel.
void check_tokens(const Model& model, const Training& training, const Strategy& strategy, Reasons& reasons);

/// What trains, and not as one would think.
[[nodiscard]] Reasons warnings_of_tokens(const Training& training, const Strategy& strategy);

}  // namespace zplan
