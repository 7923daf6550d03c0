#pragma once
// What is on this host.

#include <string>

#include "harness/machine/host.h"

namespace zplan::bench {

/// GPUs and links are asked of the driver (NVML), else the GPUs are read from the PCI bus. What cannot be
/// found out is left empty and noted; nothing here throws. `root`: a folder with proc/ and sys/; `nvml`: the
/// library as dlopen(3) takes it.
[[nodiscard]] Host read_host(const std::string& root = "/", const std::string& nvml = "libnvidia-ml.so.1");

}  // namespace zplan::bench
