#include "hardware_profiles/link_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/format.h"

namespace zplan {

Bytes ring_wire_bytes(Operation operation, Bytes bytes, std::int64_t ranks) {
  if (ranks <= 1) return {};
  // bytes·(n−1)/n without overflow: whole quotient and remainder apart.
  const std::int64_t n = ranks;
  const Bytes once(bytes.value / n * (n - 1) + bytes.value % n * (n - 1) / n);
  switch (operation) {
    case Operation::all_reduce: return once * 2;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all: return once;
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send_recv: return bytes;
  }
  return bytes;
}

namespace {

/// GPUs that a node is built for, when its NICs are counted per GPU.
constexpr std::int64_t kNodeGpus = 8;

/// Two channels, which NCCL uses between GPUs without peer-to-peer, of 2 GB/s each: the middle of published
/// machines. 2x A40 on slots of 24 GB/s and 2x RTX 2080 Ti on slots of 12 GB/s reach 4.0, 2x RTX 5090 on
/// slots of 48 GB/s 2.3 (nccl-tests logs published on GitHub). Source of the channels: NCCL
/// src/graph/search.cc (one ring, not doubled below 25 GB/s), src/graph/connect.cc (each used twice).
constexpr BytesPerSecond kHostPath{2 * 2e9};
/// The slowest of the nccl-tests logs published on GitHub.
constexpr BytesPerSecond kSlowestHostPath{1.4e9};
/// More cards than that stand on two sockets. What is left across them is as of peer-to-peer: 8 RTX 4090 on
/// two sockets reach 20.6 of 24 GB/s (nccl-tests log published on GitHub).
constexpr std::int64_t kOfOneRoot = 4;
constexpr double kAcrossSockets = 20.6 / 24;

bool in_pair(std::int64_t gpus) { return gpus <= 2; }

/// A figure of one pair says nothing of rings that leave the pair, nor the other way round.
bool speaks_for(const MeasuredLink& link, Fabric fabric, std::int64_t gpus) {
  return link.fabric == fabric && (fabric != Fabric::nvlink_bridge || in_pair(link.gpus) == in_pair(gpus));
}

const MeasuredLink* nearest_measured(const Gpu& gpu, Fabric fabric, std::int64_t gpus) {
  const auto distance = [gpus](const MeasuredLink& link) {
    return std::abs(std::log2(static_cast<double>(link.gpus) / static_cast<double>(gpus)));
  };
  const MeasuredLink* best = nullptr;
  for (const MeasuredLink& link : gpu.links)
    if (speaks_for(link, fabric, gpus) && (best == nullptr || distance(link) < distance(*best))) best = &link;
  return best;
}

BytesPerSecond link_rate(const Gpu& gpu, const Node& node, std::int64_t gpus) {
  const Fabric fabric = node.fabric;
  if (fabric == Fabric::nvswitch) return gpu.nvlink_effective;
  if (fabric == Fabric::mesh) return gpu.nvlink_effective * share_of_mesh(node, gpus);
  if (fabric != Fabric::nvlink_bridge) return gpu.pcie_effective;
  return in_pair(gpus) ? gpu.nvlink_effective : std::min(gpu.nvlink_effective, gpu.pcie_effective);
}

std::string_view link_name(Fabric fabric, std::int64_t gpus) {
  if (fabric == Fabric::mesh) return "links between GPUs";
  const bool nvlink = fabric == Fabric::nvswitch || (fabric == Fabric::nvlink_bridge && in_pair(gpus));
  return nvlink ? "NVLink" : "PCIe";
}

std::string host_path_in_words(BytesPerSecond path, BytesPerSecond by_link) {
  return fmt::format(
      "assumed: {} of bus bandwidth through the host's memory, where published machines reach {} to {} "
      "(--topology; zplan bench and zplan hardware import measure and take yours)",
      format_rate(path), format_rate(slowest_host_path()), format_rate(by_link));
}

SourcedSpeed derived_inside(const Gpu& gpu, const Node& node, std::int64_t gpus) {
  const BytesPerSecond rate = link_rate(gpu, node, gpus);
  const BytesPerSecond by_link = rate * node.link_fraction;
  const BytesPerSecond reached = within_host_path(node, gpus, by_link);
  if (reached < by_link) return {{reached, reached, node.latency}, host_path_in_words(reached, by_link)};
  return {{reached, reached, node.latency},
          fmt::format("derived: {} at {}, of which a ring reaches {}", link_name(node.fabric, gpus),
                      format_rate(rate), format_percent(node.link_fraction))};
}

/// t of the header: what a tree saves on the NICs against the share that a node sends in a ring.
double tree_factor(std::int64_t nodes) { return nodes == 2 ? 2.0 : nodes == 3 ? 4.0 / 3.0 : 1.0; }

/// Hopper and later: compute capability 9.0 and up.
bool uses_tree(const Gpu& gpu) { return capability_major(gpu.compute_capability) >= 9; }

BytesPerSecond ring_between(BytesPerSecond inside, BytesPerSecond out_of_node, std::int64_t gpus_per_node) {
  if (gpus_per_node == 1) return out_of_node;
  const double steps = static_cast<double>(gpus_per_node) / static_cast<double>(gpus_per_node - 1);
  return std::min(out_of_node, inside * steps);
}

BytesPerSecond tree_between(BytesPerSecond inside, BytesPerSecond out_of_node, std::int64_t nodes,
                            std::int64_t gpus_per_node) {
  const auto all = static_cast<double>(nodes * gpus_per_node);
  const BytesPerSecond outside = out_of_node * (tree_factor(nodes) * (all - 1) / all);
  return gpus_per_node == 1 ? outside : std::min(inside, outside);
}

}  // namespace

double share_of_mesh(const Node& node, std::int64_t gpus) {
  return node.usual_gpus > 1 ? static_cast<double>(std::min(gpus, node.usual_gpus) - 1) /
                                   static_cast<double>(node.usual_gpus - 1)
                             : 1.0;
}

BytesPerSecond slowest_host_path() { return kSlowestHostPath; }

BytesPerSecond within_host_path(const Node& node, std::int64_t gpus, BytesPerSecond by_link) {
  if (node.fabric != Fabric::pcie_host) return by_link;
  return std::min(by_link, kHostPath * (gpus > kOfOneRoot ? kAcrossSockets : 1));
}

SourcedSpeed speed_inside(const Gpu& gpu, const Node& node, std::int64_t gpus) {
  if (node.measured) return {*node.measured, "measured: node profile " + node.name};
  if (const MeasuredLink* link = nearest_measured(gpu, node.fabric, gpus))
    return {link->speed, is_assumed(link->source) ? link->source : "measured: " + link->source};
  return derived_inside(gpu, node, gpus);
}

BytesPerSecond network_out_of_node(const Network& network, std::int64_t gpus_per_node) {
  const std::int64_t nics_per_gpu = (network.nics + kNodeGpus - 1) / kNodeGpus;
  const std::int64_t used = std::min(network.nics, gpus_per_node * nics_per_gpu);
  return network.per_nic * static_cast<double>(used);
}

SourcedSpeed speed_between(const Gpu& gpu, const SourcedSpeed& inside, const Network& network,
                           std::int64_t nodes, std::int64_t gpus_per_node, std::int64_t groups) {
  const BytesPerSecond out_of_node = network_out_of_node(network, gpus_per_node);
  const BytesPerSecond out = out_of_node * (1.0 / static_cast<double>(groups));
  const std::int64_t visited = std::max<std::int64_t>(1, gpus_per_node / groups);
  const BytesPerSecond ring = ring_between(inside.speed.all_reduce, out, visited);
  const BytesPerSecond tree = tree_between(inside.speed.all_reduce, out, nodes, visited);
  return {{uses_tree(gpu) ? std::max(ring, tree) : ring, ring_between(inside.speed.all_gather, out, visited),
           network.latency},
          fmt::format("derived: rings over all nodes, {} out of each node ({})", format_rate(out_of_node),
                      network.name)};
}

namespace {

/// One core's reads and writes in DeepSpeedCPUAdam, with AVX-512. Source:
/// tests/reference/offload/cpu_adam.json.
constexpr double kThread = 43e9;

/// Source: deepspeedai/DeepSpeed pull request 5301: on one GPU pinned copies of 16-bit weights were six times
/// as fast as pageable ones of fp32: 24 GB/s of PCIe 4 by six, of twice the bytes.
constexpr BytesPerSecond kStaging{8e9};

/// Share of a node's rated memory bandwidth that one process reaches. Source: Ren et al. 2021 (ZeRO-Offload),
/// table 4: 10e9 parameters of 28 B in 2.57 s on a DGX-2, whose two Xeon 8168 have twelve channels of
/// DDR4-2666, 256 GB/s.
constexpr double kAlone = 0.43;

/// Share that several processes reach together, whose threads and pages lie on any of its processors: the
/// host's part of steps in training. Source: deepspeedai/DeepSpeed blogs/zenflow-corebinding/README.md:
/// with 1.54e9 parameters on two GPUs of a node whose two EPYC 7742 have sixteen channels of DDR4-3200, 410
/// GB/s, offload makes a step of 0.24 s one of 1.365 s, of which copies over PCIe 4 take 0.19 s and the rest
/// 42 B a parameter (tests/reference/offload/README.md has others).
constexpr double kTogether = 0.17;

}  // namespace

BytesPerSecond update_rate(const Host& host, std::int64_t processes) {
  const auto each = static_cast<double>(std::max<std::int64_t>(1, processes));
  return std::min(BytesPerSecond(kThread * static_cast<double>(host.threads)),
                  host.bandwidth * ((each > 1 ? kTogether : kAlone) / each));
}

/// 2.5 and 5 GT/s with 8/10 of them data, from generation 3 on 8 GT/s and its doubles with 128/130.
BytesPerSecond rated(const PcieLink& link) {
  const double transfers = link.generation < 3 ? 2.5e9 * static_cast<double>(link.generation)
                                               : 8e9 * std::exp2(static_cast<double>(link.generation - 3));
  const double data = link.generation < 3 ? 0.8 : 128.0 / 130.0;
  return BytesPerSecond(transfers * data / 8 * static_cast<double>(link.lanes));
}

/// 12 GB/s for 16 lanes of generation 3.
BytesPerSecond reached(const PcieLink& link) {
  return BytesPerSecond(0.75e9 * std::exp2(static_cast<double>(link.generation - 3)) *
                        static_cast<double>(link.lanes));
}

BytesPerSecond staging_rate() { return kStaging; }

}  // namespace zplan
