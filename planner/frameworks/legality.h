#pragma once
// What cannot be trained, and what trains otherwise than one would think. Each framework adds its own rules
// (FrameworkSpec::check); here are those that frameworks share: DeepSpeed's Ulysses and ALST, torch's context
// parallelism as accelerate sets it up, positions, images, preference training, recorded models.

#include <string>
#include <vector>

#include "planner/strategy.h"

namespace zplan {

/// Why this combination cannot be trained, with what the software itself says; empty where it can. Each entry
/// is one sentence. Source: DeepSpeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py; accelerate 1.15
/// parallelism_config.py; torch 2.11 distributed/tensor/experimental/_context_parallel.
[[nodiscard]] std::vector<std::string> why_illegal(const Model& model, const Training& training,
                                                   const Strategy& strategy, World world);

/// What trains, and not as one would think.
[[nodiscard]] std::vector<std::string> warnings_of_tokens(const Training& training, const Strategy& strategy);

}  // namespace zplan
