#pragma once
// What cannot be trained, and what trains otherwise than one would think. Each framework adds its own rules
// (FrameworkSpec::check); here are those that frameworks share: what only another one offers, positions,
// images, preference training, recorded models.

#include <string>
#include <vector>

#include "hardware_profiles/gpu.h"
#include "planner/question/strategy.h"

namespace zplan {

/// Why this combination cannot be trained, with what the software itself says; empty where it can. Each entry
/// is one sentence.
[[nodiscard]] std::vector<std::string> why_illegal(const Model& model, const Training& training,
                                                   const Strategy& strategy, World world);

/// Whether attention passes transformers' interface, which is what Ulysses replaces and the ring hooks.
[[nodiscard]] bool shares_attention(const ModelShape& shape);

/// True if fused attention runs on `gpu`: in 16 bits, where the GPU's architecture has such kernels.
[[nodiscard]] bool runs_flash(const Training& training, const Gpu& gpu);

/// Returns why bitsandbytes cannot pack the training's weights or keep its optimizer states on `gpu`; empty
/// where it can, or has nothing to do.
[[nodiscard]] std::string why_no_bitsandbytes(const Training& training, const Gpu& gpu);

}  // namespace zplan
