#pragma once
// Latency and bandwidth of a measured curve.

#include <optional>

#include "hardware_profiles/link.h"

namespace zplan {

/// t = α + β·bytes by least squares of relative residuals, so that small messages count as much as large
/// ones; α, β ≥ 0. The bus bandwidth is what a ring's wire bytes per byte make of β (ring_wire_bytes).
/// Nothing for fewer than two sizes, and where time does not grow with size: there is no bandwidth to name.
[[nodiscard]] std::optional<CurveFit> fit_curve(const CollectiveCurve& curve);

}  // namespace zplan
