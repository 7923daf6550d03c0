#pragma once
// NVIDIA's driver, asked through its management library, which is looked for at run time.

#include <optional>
#include <string>
#include <vector>

#include "harness/machine/host.h"

namespace zplan::bench {

/// What the driver says of its GPUs.
struct DriverFacts {
  std::string driver, cuda;
  std::vector<GpuDevice> gpus;
  std::vector<GpuLink> links;
};

/// Nothing where the library is not there or does not work, with why in `note` (empty: it is not there).
[[nodiscard]] std::optional<DriverFacts> ask_nvml(const std::string& library, std::string& note);

}  // namespace zplan::bench
