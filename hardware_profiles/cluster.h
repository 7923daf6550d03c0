#pragma once
// The cluster that a model is trained on. Figures are data with sources (hardware_profiles/*/*.json), never
// guesses in code.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hardware_profiles/gpu.h"
#include "hardware_profiles/link.h"
#include "hardware_profiles/node.h"
#include "hardware_profiles/profiles.h"
#include "models/base/quantity.h"

namespace zplan {

/// The requested cluster. Empty or absent fields take defaults, which the answer names as assumptions.
struct ClusterRequest {
  std::string gpu{};                    ///< name or path (*.json) of a profile; empty: the generic GPU
  std::optional<Bytes> memory{};        ///< per GPU; replaces the profile's
  std::optional<std::int64_t> gpus{};   ///< absent: all of the instance's nodes, else 1
  std::optional<std::int64_t> nodes{};  ///< absent: as many instances as the GPUs need, else 1
  std::string instance{};               ///< a cloud shape; other fields of the request replace its figures
  std::string node{};                   ///< node type; empty: the usual one for the GPU
  std::string network{};                ///< empty: the usual one if there are several nodes
  std::optional<Bytes> host_memory{};   ///< per node
  std::optional<PcieLink> pcie{};       ///< the slot of each GPU; replaces the profile's
  std::optional<PciePath> path{};       ///< the longest between GPUs of a node
  std::optional<std::int64_t> host_threads{};      ///< of each process on the host
  std::optional<BytesPerSecond> host_bandwidth{};  ///< rated, of a node's memory channels
  std::optional<BytesPerSecond> disk{};            ///< that a node's drives read, or write
};

/// Factors by which links are assumed to be faster than they are, for what-if questions. They shorten the
/// time of a collective's bytes, not its latency (CollectivePricer).
struct LinkFactors {
  double inside{1};   ///< groups within a node
  double between{1};  ///< groups that span nodes: the network
  friend bool operator==(const LinkFactors&, const LinkFactors&) = default;
};

/// The machines of one plan, every default filled in.
struct Cluster {
  Gpu gpu{};
  Node node{};
  std::optional<Network> network{};  ///< only with several nodes
  std::int64_t gpus{1}, nodes{1}, gpus_per_node{1};
  Bytes memory{};         ///< per GPU, as nvidia-smi totals it
  Bytes usable_memory{};  ///< that a process can allocate: total minus the driver's
  Bytes host_memory_per_node{};
  Host host{};                         ///< the part of the node that offload uses
  std::optional<Instance> instance{};  ///< the cloud shape of the nodes, if one was named
  LinkSpeed inside{};                  ///< collectives within a node
  std::optional<LinkSpeed> between{};  ///< collectives across nodes, per GPU
  std::string inside_source{};   ///< source of `inside`: "measured: …", "derived: …" or "assumed: …"
  std::string between_source{};  ///< source of `between`; empty on one node
  LinkFactors link_factors{};
  KernelModel kernels{};                   ///< the shares of the GPU's peaks that kernels reach
  std::vector<std::string> assumptions{};  ///< one sentence per value that is a default or uncertain
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

/// Returns the memory that a process can use of a GPU that nvidia-smi lists with `memory`: the total minus
/// Gpu::driver_reserved, which counts for at most one twentieth of the total (the largest measured share is
/// 4 %, 460 of 11264 MiB of an RTX 2080 Ti). The driver keeps a nearly fixed amount, 450 MiB on GPUs of 11 to
/// 24 GB, 890 MiB on an A100 of 80 GB, so a fixed amount per GPU is nearer than a percentage. Source: sources
/// of "driver_reserved_mib".
[[nodiscard]] Bytes usable_memory(const Gpu& gpu, Bytes memory);

/// Returns the request with its instance's figures for the fields that are empty; without an instance 1 GPU
/// on 1 node. Throws InputError for an unknown instance, or that has fewer GPUs than are requested per node.
[[nodiscard]] ClusterRequest filled_in(ClusterRequest request, const HardwareProfiles& profiles);

/// Assembles the cluster of a request. Throws InputError, which names the option, for --gpus out of 1 to
/// 1,000,000, --nodes that do not divide the GPUs,
/// --mem out of 0.5 to 4096 GiB, --host-mem out of 1 to 1048576 GiB, unknown names, and a node type for
/// which the GPU has no links.
[[nodiscard]] Cluster assemble_cluster(const ClusterRequest& asked, const HardwareProfiles& profiles);

/// Placement of a group of communicating GPUs on the nodes of a cluster.
struct GroupPlace {
  std::int64_t ranks{1};
  std::int64_t nodes{1};         ///< that the group spans, with equally many ranks on each
  std::int64_t side_by_side{1};  ///< groups like it, itself included, that communicate on the same nodes
  [[nodiscard]] std::int64_t ranks_per_node() const { return (ranks + nodes - 1) / nodes; }
  friend bool operator==(const GroupPlace&, const GroupPlace&) = default;
};

/// Places groups of `ranks` GPUs that are `stride` apart in the order of the cluster's ranks, which fills one
/// node after the other:
///  - tensor-parallel groups: stride 1;
///  - data-parallel groups of all: stride tensor_parallel;
///  - sub-groups of a data-parallel group (hpZ, the sharding groups of HSDP): fewer ranks, the same stride;
///  - groups of the sub-groups' equals (HSDP's replicas): stride sub-group · tensor_parallel.
/// With g GPUs per node, ranks·stride ≤ g lies inside one node, of whose g/ranks groups each is one. Else a
/// node holds max(1, g/stride) of the ranks, and min(g, stride) groups lie side by side on the same nodes.
/// If the numbers do not divide each other, a group that is split between nodes is placed: it is the slowest.
/// Source: torch.distributed and DeepSpeed number ranks node by node; DeepSpeed utils/groups.py and
/// Megatron-LM core/parallel_state.py make tensor-parallel groups of neighbours.
[[nodiscard]] GroupPlace place_group(const Cluster& cluster, std::int64_t ranks, std::int64_t stride = 1);

/// Returns the place of all GPUs of the cluster as one group.
[[nodiscard]] GroupPlace place_of_all(const Cluster& cluster);

}  // namespace zplan
