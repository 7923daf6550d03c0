#pragma once
// Bandwidth of collectives inside a node and across nodes: measured if it was, else derived from link rates.

#include <cstdint>
#include <string>

#include "hardware_profiles/node.h"
#include "hardware_profiles/operation.h"
#include "models/base/quantity.h"

namespace zplan {

/// Returns the bytes that a ring sends from each GPU for one operation on `bytes` over `ranks`: 2·(n−1)/n
/// all_reduce, (n−1)/n all_gather, reduce_scatter and all_to_all, 1 broadcast, reduce and send_recv. Source:
/// nccl-tests doc/PERFORMANCE.md.
[[nodiscard]] Bytes ring_wire_bytes(Operation operation, Bytes bytes, std::int64_t ranks);

/// A speed and its source, for the report.
struct SourcedSpeed {
  LinkSpeed speed{};
  std::string source{};  ///< "measured: …", "assumed: …" or "derived: …"
  friend bool operator==(const SourcedSpeed&, const SourcedSpeed&) = default;
};

/// Returns the share of its links that a GPU of a group of `gpus` uses in a mesh, where it has one link to
/// each other GPU: (gpus − 1) / (usual_gpus − 1).
[[nodiscard]] double share_of_mesh(const Node& node, std::int64_t gpus);

/// Returns what a ring of `gpus` in one node reaches of links that allow `by_link`: through the host's memory
/// no more than NCCL's kernels copy through their few buffers there, whatever the slot. Source: NCCL
/// src/transport/shm.cc; docs/hardware.md.
[[nodiscard]] BytesPerSecond within_host_path(const Node& node, std::int64_t gpus, BytesPerSecond by_link);
/// Returns the bus bandwidth through the host's memory of the slowest machine that published it.
[[nodiscard]] BytesPerSecond slowest_host_path();

/// Returns the speed of collectives of `gpus` GPUs inside one node, the first of:
///  1. node.measured;
///  2. the GPU's measured figure on this fabric whose number of GPUs is nearest by ratio (of a bridge, a
///  pair's
///     figure holds for pairs alone);
///  3. link rate × node.link_fraction, within the host path. The link rate is what NCCL's ring
///  reaches: effective NVLink with a switch
///     or inside a bridged pair, the slower of NVLink and PCIe for rings that leave a pair, PCIe otherwise.
///     Source: NCCL src/graph/topo.h, topo.cc.
[[nodiscard]] SourcedSpeed speed_inside(const Gpu& gpu, const Node& node, std::int64_t gpus);

/// Returns the bandwidth out of a node, in one direction, that collectives of `gpus_per_node` GPUs reach: a
/// GPU drives only the NICs next to it, and nodes are built for eight, so NICs in use = min(nics,
/// gpus_per_node · ⌈nics / 8⌉). Check: 4 H100 on two DGX nodes reach 148 GB/s all_reduce = 1.5 · 2 NICs · 49
/// (nccl-tests log published on GitHub), not 8 NICs.
[[nodiscard]] BytesPerSecond network_out_of_node(const Network& network, std::int64_t gpus_per_node);

/// Returns the bus bandwidth of collectives over all GPUs of several nodes, N nodes of g GPUs, n = N·g, a
/// network of `net` out of each node (network_out_of_node).
///
/// A ring over all GPUs passes each node once: it enters by a NIC, visits g GPUs over g−1 inner links and
/// leaves by a NIC; NCCL lays several such rings so that all NICs are used. For all_gather and reduce_scatter
/// of S bytes in all, (n−1)/n·S crosses each edge, so in bus bandwidth
///   all_gather = min(net, inside.all_gather · g/(g−1));      g = 1: net.
/// all_reduce by ring has the same bound. By tree (double binary; NVLSTree since Hopper) a node sends 2S in
/// all instead of 2(n−1)/n·S, but on two nodes only S, and on three 3/2·S:
///   all_reduce = min(inside.all_reduce, t · (n−1)/n · net),  t = 2 for N = 2, 4/3 for N = 3, and never less
///   than
/// the ring. Before Hopper t is not used: published logs of V100 and A100 nodes reach the ring's bound (48 of
/// 48 on 4×100 Gb/s, 188 of 192 GB/s on 8×200 Gb/s). Checks: 2×8 B200, 8×400 Gb/s: 705 against 684 to 718
/// measured, all_gather 376 against 308; 2×8 H100: 483 against 466. Sources: NVIDIA/nccl-tests
/// doc/PERFORMANCE.md; NCCL src/graph/tuning.cc; SimAI astra-sim calbusbw.cc (factors t).
///
/// `groups` rings side by side over the same nodes, as data-parallel groups are under tensor parallelism:
/// each visits g / groups GPUs of a node and has 1 / groups of the way out.
[[nodiscard]] SourcedSpeed speed_between(const Gpu& gpu, const SourcedSpeed& inside, const Network& network,
                                         std::int64_t nodes, std::int64_t gpus_per_node,
                                         std::int64_t groups = 1);

}  // namespace zplan
