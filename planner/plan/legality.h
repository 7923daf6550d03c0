#pragma once
// What cannot be trained, and what trains otherwise than one would think. Each framework adds its own rules
// (FrameworkSpec::check); here are those that frameworks share: what only another one offers, positions,
// images, preference training, recorded models.

#include <string>
#include <vector>

#include "planner/question/strategy.h"

namespace zplan {

/// Why this combination cannot be trained, with what the software itself says; empty where it can. Each entry
/// is one sentence.
[[nodiscard]] std::vector<std::string> why_illegal(const Model& model, const Training& training,
                                                   const Strategy& strategy, World world);

/// Whether attention passes transformers' interface, which is what Ulysses replaces and the ring hooks.
[[nodiscard]] bool shares_attention(const ModelShape& shape);

}  // namespace zplan
