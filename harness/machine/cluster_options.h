#pragma once
// The options by which zplan is told of these hosts.

#include <string>
#include <vector>

#include "hardware_profiles/profiles.h"
#include "harness/machine/host.h"

namespace zplan::bench {

struct ClusterOptions {
  std::vector<std::string>
      words;  ///< "--gpus", "8", "--nodes", "1", "--gpu", "NVIDIA H200", …; empty: no cards
  std::vector<std::string> notes;  ///< what they do not say, or what was assumed
};

/// The type of node that the host's cards and links make: nvswitch where every card reaches every other by
/// NVLink (or each has NVLink to two or more), nvlink-bridge where pairs do, pcie where cards read each other
/// over PCIe, pcie-no-p2p where they do not, single where there is one. What the host does not say, the
/// card's profile does, and a note says so.
[[nodiscard]] std::string node_type(const Host& host, const HardwareProfiles& profiles,
                                    std::vector<std::string>& notes);

/// Of hosts with the same cards; of others the first one's, and a note.
[[nodiscard]] ClusterOptions cluster_options(const std::vector<Host>& hosts,
                                             const HardwareProfiles& profiles);

/// The words as a line for a shell.
[[nodiscard]] std::string command_line(const ClusterOptions& options);

}  // namespace zplan::bench
