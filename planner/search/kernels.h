#pragma once
// What of a training has kernels on a GPU, and what does not.

#include <string>

#include "hardware_profiles/gpu.h"
#include "planner/question/strategy.h"

namespace zplan {

/// Whether fused attention runs there: in 16 bits, where the GPU's architecture has such kernels.
[[nodiscard]] bool runs_flash(const Training& training, const Gpu& gpu);

/// Why bitsandbytes cannot pack these weights or keep these optimizer states there; empty where it can, or is
/// not asked to.
[[nodiscard]] std::string why_no_bitsandbytes(const Training& training, const Gpu& gpu);

}  // namespace zplan
