#pragma once
// A host's processors, memory, GPUs, links and NICs, and the options of zplan that describe them.

#include <optional>
#include <string>
#include <vector>

#include "hardware_profiles/bench_result.h"
#include "hardware_profiles/profiles.h"
#include "models/base/json_reader.h"
#include "models/base/quantity.h"

namespace zplan::bench {

/// One GPU.
struct GpuDevice {
  int index{};
  std::string name{};                ///< as the driver has it: "NVIDIA H200"
  Bytes memory{};                    ///< 0: nothing says
  std::string compute_capability{};  ///< "9.0"; empty: nothing says
  std::string pci{};                 ///< "0000:1b:00.0"; empty: nothing says
  int pcie_generation{};             ///< that GPU and slot can both do; 0: nothing says
  int pcie_lanes{};                  ///< that GPU and slot can both do; 0: nothing says
  bool operator==(const GpuDevice&) const = default;
};

struct GpuLink {
  int from{}, to{};  ///< index; from < to
  LinkKind kind{LinkKind::pcie};
  int lanes{};                         ///< NVLinks between the two, or of each to the switch; else 0
  bool switched{};                     ///< those go to an NVSwitch
  std::optional<bool> peer_to_peer{};  ///< one reads the other's memory; nothing: nothing says
  bool operator==(const GpuLink&) const = default;
};

struct Nic {
  std::string name;
  std::optional<BytesPerSecond> rate{};  ///< line rate, one direction; nothing: the driver does not say
  bool operator==(const Nic&) const = default;
};

struct Host {
  std::string name{};
  std::vector<int> ranks{};  ///< that run there
  std::string processor{};
  int cores{};
  int numa_nodes{};  ///< 0: nothing says
  Bytes memory{};    ///< that a process may have
  std::string driver{},
      cuda{};  ///< of the GPUs: version of the driver, newest CUDA that it runs; empty: none
  std::vector<GpuDevice> gpus{};
  std::vector<GpuLink> links{};  ///< each pair once
  std::vector<Nic> nics{};
  std::vector<std::string> notes{};  ///< what was not found out, and why
  bool operator==(const Host&) const = default;
};

/// An entry of "hosts" in zplan.bench/1.
[[nodiscard]] Json host_json(const Host& host);

/// Returns the number of NUMA nodes, 0 without hwloc or if that does not know. Without /sys hwloc reports one
/// for the whole host.
[[nodiscard]] int numa_node_count();

/// Reads this host: GPUs and links from the driver (NVML), else GPUs from the PCI bus. Leaves empty, with a
/// note, what it cannot find out, and never throws. `root`: a folder with proc/ and sys/; `nvml`: the
/// library's name for dlopen(3).
[[nodiscard]] Host read_host(const std::string& root = "/", const std::string& nvml = "libnvidia-ml.so.1");

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
