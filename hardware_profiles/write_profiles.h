#pragma once
// Profiles as the files they are read from.

#include "hardware_profiles/gpu.h"
#include "models/base/json_reader.h"

namespace zplan {

/// The GPU as zplan.gpu/1: read_profiles() of it gives the GPU again; only a figure that no number times
/// its unit is exactly comes back as the one next to it.
[[nodiscard]] Json write_gpu(const Gpu& gpu);

}  // namespace zplan
