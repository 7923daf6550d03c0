#pragma once
// Legality: what cannot be trained. Each framework adds its own rules (FrameworkSpec::check); here are those
// that frameworks share: features of another framework, positions, images, preference training, recorded
// models, kernels on a GPU.

#include <string>
#include <string_view>
#include <vector>

#include "hardware_profiles/gpu.h"
#include "planner/question/strategy.h"

namespace zplan {

/// Returns why this combination cannot be trained, one sentence each, as the software itself says it; empty
/// where it can.
[[nodiscard]] std::vector<std::string> why_illegal(const Model& model, const Training& training,
                                                   const Strategy& strategy, World world);

/// Returns " (inferred after MODEL …; name a real model …)" behind a figure of a shape that was made up for a
/// size; empty for a real model.
[[nodiscard]] std::string if_inferred(const Model& model);

/// Returns why `what` is not planned for a model that is known by a recording or an analogy alone.
[[nodiscard]] std::string for_described_models(std::string_view what);

/// True if attention goes through transformers' interface, which Ulysses replaces and the ring hooks.
[[nodiscard]] bool shares_attention(const ModelShape& shape);

/// True if fused attention runs on `gpu`: in 16 bits, where the GPU's architecture has such kernels.
[[nodiscard]] bool runs_flash(const Training& training, const Gpu& gpu);

/// Returns why bitsandbytes cannot pack the training's weights or keep its optimizer states on `gpu`; empty
/// where it can, or has nothing to do.
[[nodiscard]] std::string why_no_bitsandbytes(const Training& training, const Gpu& gpu);

}  // namespace zplan
