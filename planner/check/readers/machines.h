#pragma once
// GPUs, nodes and links as measured rows and logs name them.

#include <optional>
#include <string>
#include <string_view>

#include "hardware_profiles/bench_result.h"
#include "hardware_profiles/profiles.h"
#include "models/base/json_reader.h"
#include "planner/check/case.h"

namespace zplan::check {

/// The GPU of rows that name none, or none that is known.
inline constexpr const char* kGenericCard = "generic";
/// The GPU whose compute capability, 8.0, runs on a stand-in for the CUDA runtime pretended to have.
inline constexpr const char* kMeasuredCard = "A100-SXM-80GB";

/// Returns the built-in profile of the GPU that a row names; nothing, and the reason in `skip`, where the
/// catalogue has no GPU of that name, or one whose memory differs from `memory` by more than 5 %.
[[nodiscard]] std::optional<std::string> profile_named(const std::string& name, std::optional<Bytes> memory,
                                                       Skip& skip);

/// Returns the profile of a GPU as CUDA names it, "NVIDIA A100-SXM4-80GB": words are dropped from its end
/// until a profile is found. Nothing where none is.
[[nodiscard]] std::optional<std::string> profile_of_card(const HardwareProfiles& hardware,
                                                         const std::string& card);

/// Returns the nodes that published runs use: of eight GPUs each, and one node below that.
[[nodiscard]] std::int64_t usual_nodes(std::int64_t gpus);
/// Returns `gpus` GPUs in the usual nodes. Memory is the profile's where `memory` is absent.
[[nodiscard]] Cluster usual_cluster(const std::string& profile, std::int64_t gpus,
                                    std::optional<Bytes> memory);

/// Divides the cluster's ranks into nodes of `ranks_per_node`, where the row has that field.
void read_ranks_per_node(const JsonReader& row, Cluster& cluster);

/// Returns `gpus` GPUs on the links that `row` names: interconnect, nodes, and what its source says of the
/// machine: topology, host_threads, host_gb_per_s. One NVLink domain is one node. Throws InputError where the
/// nodes do not divide the GPUs.
[[nodiscard]] Cluster linked_cluster(const std::string& profile, const JsonReader& row, std::int64_t gpus);

/// Node type and network that a description means; empty where it does not say.
struct NamedLinks {
  std::string node;
  std::string network;
  bool one_domain{};  ///< all GPUs share one NVLink switch, over however many hosts
  bool operator==(const NamedLinks&) const = default;
};
/// Reads links as people write them: "NVSwitch", "NVLink bridge", "PCIe 4 with peer-to-peer", "8x 200 Gb/s
/// InfiniBand HDR per node", "TCP sockets", "1600 Gb/s per node, RoCE" (eight NICs).
[[nodiscard]] NamedLinks links_named(std::string_view description);

/// True if GPUs of such a node are joined by NVLink.
[[nodiscard]] bool has_nvlink(Fabric fabric);

/// Returns the node type that the links of a result's hosts show: through the host where one pair is, else
/// PCIe where one is; where all are NVLink, the GPU's usual type if that has NVLink, else bridges. The GPU's
/// usual type where no links are listed.
[[nodiscard]] std::string node_seen(const BenchResult& result, const Gpu& card,
                                    const HardwareProfiles& hardware);

}  // namespace zplan::check
