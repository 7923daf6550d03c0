#pragma once
// What a model is trained on. Figures are data with sources (hardware_profiles/*/*.json); nothing here is guessed
// in code.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

/// One kind of card.
struct Gpu {
  std::string name;  ///< "H100-SXM-80GB"
  std::vector<std::string> aliases;
  Bytes memory;  ///< what nvidia-smi prints as total
  BytesPerSecond memory_bandwidth;
  /// Dense peak rates of matrix products; absent where the card does not do the type in hardware.
  std::optional<FlopsPerSecond> bf16, fp16, tf32, fp32, fp8;
  std::string compute_capability;   ///< "9.0"
  BytesPerSecond nvlink;            ///< one direction, all links together; 0: none
  BytesPerSecond pcie;              ///< one direction to the host, as the slot is wired
  bool peer_to_peer{};              ///< GPUs read each other over PCIe (no: consumer cards since Ada, through the host)
  double matrix_efficiency{};       ///< fraction of the peak that training reaches in matrix products, measured
  std::map<std::string, std::string> sources;  ///< figure → where it was read
};

/// How the GPUs of a node reach each other.
enum class Fabric { nvswitch, nvlink_bridge, pcie_peer, pcie_host };
template <>
struct EnumNames<Fabric> {
  static constexpr std::array<std::pair<Fabric, std::string_view>, 4> table{{
      {Fabric::nvswitch, "nvswitch"},
      {Fabric::nvlink_bridge, "nvlink-bridge"},
      {Fabric::pcie_peer, "pcie"},
      {Fabric::pcie_host, "pcie-no-p2p"},
  }};
};

/// Bus bandwidth that a collective reaches on a link with large messages, and the latency of a small one.
/// Bus bandwidth as nccl-tests defines it.
struct LinkSpeed {
  BytesPerSecond all_reduce;
  BytesPerSecond all_gather;  ///< and reduce_scatter
  Seconds latency;
};

/// A machine, or the kind of one.
struct Node {
  std::string name;  ///< "nvswitch", "pcie", …
  std::vector<std::string> aliases;
  Fabric fabric{Fabric::pcie_peer};
  std::optional<LinkSpeed> measured;  ///< where a node type fixes it; otherwise derived from the card's links
  Bytes host_memory;                  ///< usual, as an assumption that the report prints
  std::map<std::string, std::string> sources;
};

/// What connects nodes.
struct Network {
  std::string name;  ///< "400g", "efa", "tcp", …
  std::vector<std::string> aliases;
  BytesPerSecond per_node;  ///< one direction, all NICs of a node, as reached
  Seconds latency;
  std::map<std::string, std::string> sources;
};

struct HardwareProfiles {
  std::vector<Gpu> gpus;
  std::vector<Node> nodes;
  std::vector<Network> networks;
};

/// The profiles compiled into the program.
[[nodiscard]] const HardwareProfiles& built_in_profiles();
/// One profile file (`zplan.gpu/1`, `zplan.node/1`, `zplan.network/1`), checked. Throws InputError.
[[nodiscard]] HardwareProfiles read_profiles(const JsonReader& file);
/// Built-in profiles plus every *.json of a user's folder; a user's profile replaces a built-in one of its name.
[[nodiscard]] HardwareProfiles with_user_profiles(const std::string& folder);

/// By name or alias, case and punctuation ignored; InputError naming `place` with the nearest names otherwise.
[[nodiscard]] const Gpu& find_gpu(const HardwareProfiles& profiles, std::string_view name, std::string_view place = "--gpu");
[[nodiscard]] const Node& find_node(const HardwareProfiles& profiles, std::string_view name, std::string_view place = "--node");
[[nodiscard]] const Network& find_network(const HardwareProfiles& profiles, std::string_view name,
                                          std::string_view place = "--network");

/// What is asked for; empty or absent means the default, which the answer names as an assumption.
struct ClusterRequest {
  std::string gpu;                   ///< name or path of a profile; empty: the generic card
  std::optional<Bytes> memory;       ///< per GPU; wins over the profile's
  std::int64_t gpus{1};
  std::int64_t nodes{1};
  std::string node;                  ///< node type; empty: the usual one for the card
  std::string network;               ///< empty: the usual one where there are several nodes
  std::optional<Bytes> host_memory;  ///< per node
};

/// The machines of one plan, every default filled in.
struct Cluster {
  Gpu gpu;
  Node node;
  std::optional<Network> network;  ///< only with several nodes
  std::int64_t gpus{1}, nodes{1}, gpus_per_node{1};
  Bytes memory;                   ///< per GPU, as nvidia-smi totals it
  Bytes usable_memory;            ///< what a process can allocate: total less what the driver keeps
  Bytes host_memory_per_node;
  LinkSpeed inside;               ///< collectives within a node
  std::optional<LinkSpeed> between;  ///< collectives across nodes, per GPU
  std::vector<std::string> assumptions;  ///< one sentence per value that was not given
};

/// Throws InputError naming the option: gpus < 1, nodes that do not divide the GPUs, memory out of range, unknown names.
[[nodiscard]] Cluster assemble_cluster(const ClusterRequest& request, const HardwareProfiles& profiles);

}  // namespace zplan
