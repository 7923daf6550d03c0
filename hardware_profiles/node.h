#pragma once
// Machines, their hosts, and networks between them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hardware_profiles/gpu.h"
#include "hardware_profiles/link.h"
#include "models/base/quantity.h"

namespace zplan {

/// The processors, memory and drives of a node, which offload uses.
struct Host {
  std::int64_t threads{1};         ///< of each process: OMP_NUM_THREADS, or its part of the cores
  BytesPerSecond bandwidth{90e9};  ///< rated, of all memory channels of the node
  BytesPerSecond disk{3e9};        ///< what the drives of the node read, or write: one of PCIe 4 x4
  std::int64_t gpus_on_uplink{1};  ///< GPUs behind one PCIe switch, which share its link to the host
  friend bool operator==(const Host&, const Host&) = default;
};

/// Returns the bytes per second that the optimizer loop of one of `processes` on a node reads and writes:
/// bounded by what its threads keep in flight, and by its share of the node's memory bandwidth.
[[nodiscard]] BytesPerSecond update_rate(const Host& host, std::int64_t processes);

/// Returns the rate of copies between pageable memory and a GPU: one thread moves them through pinned
/// buffers.
[[nodiscard]] BytesPerSecond staging_rate();

/// The longest path between two GPUs of a node, under the names of `nvidia-smi topo -m`.
enum class PciePath : std::uint8_t {
  pix,   ///< one PCIe switch
  pxb,   ///< several, behind one host bridge
  phb,   ///< the host bridge
  node,  ///< host bridges of one NUMA node
  sys    ///< the link between NUMA nodes: two sockets
};
template <>
struct EnumNames<PciePath> {
  static constexpr std::array<std::pair<PciePath, std::string_view>, 5> table{{{PciePath::pix, "PIX"},
                                                                               {PciePath::pxb, "PXB"},
                                                                               {PciePath::phb, "PHB"},
                                                                               {PciePath::node, "NODE"},
                                                                               {PciePath::sys, "SYS"}}};
};

/// Generation and lanes of a PCIe slot.
struct PcieLink {
  std::int64_t generation{4}, lanes{16};
  friend bool operator==(const PcieLink&, const PcieLink&) = default;
};
/// Return the rated bandwidth of a slot, and the one that NCCL and large copies reach, in one direction.
/// Source: PCI Express base specification; NCCL src/graph/topo.cc kvDictPciGen.
[[nodiscard]] BytesPerSecond rated(const PcieLink& link);
[[nodiscard]] BytesPerSecond reached(const PcieLink& link);

/// A machine, or a type of machines.
struct Node {
  std::string name{};  ///< "nvswitch", "pcie", …
  std::vector<std::string> aliases{};
  Fabric fabric{Fabric::pcie_peer};
  std::int64_t usual_gpus{8};           ///< GPUs of such a node; more are possible, with a remark
  Bytes host_memory{};                  ///< usual, as an assumption that the report prints
  std::int64_t host_cores{16};          ///< usual, of all processors
  BytesPerSecond host_bandwidth{90e9};  ///< usual, rated, of all memory channels
  double link_fraction{1.0};            ///< share of the GPU's effective link rate that a ring reaches here
  Seconds latency{};                    ///< of a small collective, if the GPU has no measured figure
  std::optional<LinkSpeed> measured{};  ///< on this machine; replaces the GPU's figures and the links
  std::vector<CollectiveCurve> collectives{};  ///< measured curves of this machine
  Sources sources{};
  friend bool operator==(const Node&, const Node&) = default;
};

/// A network between nodes.
struct Network {
  std::string name{};  ///< "8x400g", "efa", "tcp", …
  std::vector<std::string> aliases{};
  std::int64_t nics{1};       ///< per node
  BytesPerSecond nic{};       ///< line rate of one NIC, one direction
  BytesPerSecond per_nic{};   ///< one NIC, one direction, as reached
  BytesPerSecond per_node{};  ///< all NICs of a node, one direction, as reached: nics × per_nic
  Seconds latency{};          ///< of a small collective across nodes
  std::vector<CollectiveCurve> collectives{};
  Sources sources{};
  friend bool operator==(const Network&, const Network&) = default;
};

/// A cloud shape: a machine that is rented by name. GPU, node and network are names of profiles.
struct Instance {
  std::string name{};      ///< "p5.48xlarge"
  std::string provider{};  ///< "AWS"
  std::vector<std::string> aliases{};
  std::string gpu{}, node{}, network{};
  std::int64_t gpus{1};
  Bytes host_memory{};
  std::int64_t vcpus{};
  Bytes local_disk{};    ///< NVMe of the machine itself; 0: none
  std::string source{};  ///< page with these figures
  std::string date{};    ///< on which it was looked up: "2026-11-23"
  Sources assumed{};     ///< figure → why it is uncertain
  friend bool operator==(const Instance&, const Instance&) = default;
};

}  // namespace zplan
