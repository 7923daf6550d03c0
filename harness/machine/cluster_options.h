#pragma once
// The options that describe this host to zplan.

#include <string>
#include <vector>

#include "hardware_profiles/profiles.h"
#include "harness/machine/host.h"

namespace zplan::bench {

struct ClusterOptions {
  std::vector<std::string>
      words;  ///< "--gpus", "8", "--nodes", "1", "--gpu", "NVIDIA H200", …; empty: no GPUs
  std::vector<std::string> notes;  ///< what they do not say, or what was assumed
};

/// The type of node follows from the GPUs and links: nvswitch where every GPU reaches every other by NVLink
/// (or each has NVLink to two or more), nvlink-bridge where pairs do, pcie where GPUs read each other over
/// PCIe, pcie-no-p2p where they do not, single where there is one. What the host does not say, the GPU's
/// profile does, and a note says so.
[[nodiscard]] ClusterOptions cluster_options(const Host& host, const HardwareProfiles& profiles);

/// The words as a line for a shell.
[[nodiscard]] std::string command_line(const ClusterOptions& options);

}  // namespace zplan::bench
