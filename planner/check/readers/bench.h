#pragma once
// The machines of a result of the benchmark.

#include <string>

#include "hardware_profiles/bench_result.h"
#include "hardware_profiles/profiles.h"

namespace zplan::check {

[[nodiscard]] bool has_nvlink(Fabric fabric);

/// The node type that the links of its hosts are: through the host where one pair is, else PCIe where one is;
/// the GPU's usual type, if that has NVLink, where all are NVLink, else bridges. The GPU's usual type where
/// no links are listed.
[[nodiscard]] std::string node_seen(const BenchResult& result, const Gpu& card,
                                    const HardwareProfiles& hardware);

}  // namespace zplan::check
