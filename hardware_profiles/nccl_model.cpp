#include "hardware_profiles/nccl_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "hardware_profiles/link_speed.h"

namespace zplan {

namespace {

using Algorithm = CollectiveAlgorithm;
using Protocol = CollectiveProtocol;

// Figures of NCCL are in µs and GB/s. One value per protocol: LL, LL128, Simple.
using ByProtocol = std::array<double, 3>;
constexpr std::array kProtocols{Protocol::ll, Protocol::ll128, Protocol::simple};

constexpr ByProtocol kTreeBase{6.8, 14.0, 8.4}, kRingBase{6.6, 14.0, 8.4};  // tuning.cc, baseLatencies

/// Latency of one step on one kind of link. Source: tuning.cc, hwLatencies.
struct StepLatencies {
  ByProtocol tree, ring;
  double nvls, nvls_tree;
};
constexpr StepLatencies kNvlinkSteps{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}, 25, 25};
constexpr StepLatencies kPcieSteps{{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}, 0, 0};
constexpr StepLatencies kNetworkSteps{{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}, 18, 20.9};

/// Microseconds that a step inside a node takes longer if rings leave the node: posting to the network, on an
/// Intel host; three times as long with Simple. Source: tuning.cc, getNetOverhead.
constexpr double kNetworkOverhead = 1.0;
/// Factors of the latency of multi-node rings of long messages: on Volta, on Ampere and later. Source:
/// tuning.cc, ncclTopoGetAlgoTime.
constexpr double kPlateauVolta = 1.9, kPlateau = 1.4;
constexpr std::int64_t kPlateauBytes = 64;  ///< per channel and rank, from which on

/// Limits of a generation of GPUs: on one node, two, and more. GB/s, per channel where not LL.
/// Source: tuning.cc, ncclTunerConstantsDefaults and nvlsEfficiency.
using ByNodes = std::array<double, 3>;
struct Generation {
  ByNodes ll;
  double ring_ll128;
  ByNodes tree_ll128, tree, nvls_tree;
  double nvls_efficiency;
};
constexpr std::array<Generation, 4> kGenerations{{
    {{39.0, 39.0, 20.4}, 20.0, {20.0, 20.0, 20.0}, {26.5, 18.5, 10.0}, {0, 0, 0}, 0},
    {{87.7, 39.0, 20.4}, 20.0, {20.0, 20.0, 20.0}, {24.0, 23.6, 17.8}, {0, 0, 0}, 0},
    {{141.0, 39.0, 20.4}, 36.7, {36.7, 36.7, 29.0}, {38.7, 41.4, 36.0}, {0, 57.7, 45.5}, 0.85},
    {{282.0, 39.0, 20.4}, 40.0, {55.6, 31.67, 20.0}, {70.0, 42.8, 24.0}, {0, 96.0, 80.0}, 0.74},
}};

/// Share of its bandwidth that a tree reaches, by size from 64 B in powers of two, per protocol.
/// Source: tuning.cc, treeCorrectionFactor.
constexpr int kTreeSizes = 24;
constexpr std::array<std::array<double, kTreeSizes>, 3> kTreeFactors{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

/// GB/s per channel that NCCL's search tries, fastest first, on one node. Source: search.cc, speedArrayIntra,
/// sm90SpeedArrayIntra, sm100SpeedArrayIntra.
constexpr std::array kSpeeds{40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0};
constexpr std::array kSpeedsHopper{60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0};
constexpr std::array kSpeedsBlackwell{90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0};
constexpr std::int64_t kMostChannels = 32;   ///< half of MAXCHANNELS, which rings may have. Source: init.cc
constexpr std::int64_t kMostNvlsHeads = 32;  ///< NCCL_MAX_NVLS_ARITY, device.h

/// A small all_reduce over two nodes of eight by tree with LL, on a network without latency of its own:
/// 6.8 + 2·(7·0.6 + 5.0).
constexpr double kSmallOnTwoNodes = 25.2;

struct Speeds {
  const double *first, *last;
  [[nodiscard]] const double* begin() const { return first; }
  [[nodiscard]] const double* end() const { return last; }
};

Speeds speeds_of(int compute_capability) {
  if (compute_capability >= 10) return {kSpeedsBlackwell.begin(), kSpeedsBlackwell.end()};
  if (compute_capability >= 9) return {kSpeedsHopper.begin(), kSpeedsHopper.end()};
  return {kSpeeds.begin(), kSpeeds.end()};
}

/// The fastest that is tried and not above `most`; 0: none.
double speed_within(int compute_capability, double most) {
  const Speeds speeds = speeds_of(compute_capability);
  const auto* at = std::find_if(speeds.begin(), speeds.end(), [most](double s) { return s <= most; });
  return at == speeds.end() ? 0 : *at;
}

/// Channels of an algorithm. GB/s per channel, inside a node and out of it.
struct Channels {
  std::int64_t count{};
  double inside{}, outside{};
  [[nodiscard]] double number() const { return static_cast<double>(count); }
};

/// Few fast channels are split in two. Source: search.cc, ncclTopoDupChannels.
Channels doubled_if_fast(Channels channels, int compute_capability) {
  const bool slow = channels.inside < 25;
  const bool many = compute_capability >= 9 && channels.inside < 50 && channels.count > 4;
  if (slow || many || channels.count * 2 > kMostChannels) return channels;
  return {channels.count * 2, channels.inside / 2, channels.outside / 2};
}

/// The inputs of the model for one group.
struct Group {
  const Cluster& cluster;
  const Network* between;  ///< null on one node
  Operation operation;
  GroupPlace place;
  int compute_capability;  ///< its major part
  bool nvlink;             ///< inside the node
  double link;             ///< GB/s of a GPU's links inside the node, as a ring reaches them
  double network;          ///< GB/s out of a node, this group's share
  double latency;          ///< µs that the network adds to a step

  [[nodiscard]] double ranks() const { return static_cast<double>(place.ranks); }
  [[nodiscard]] double nodes() const { return static_cast<double>(place.nodes); }
  [[nodiscard]] double each() const { return static_cast<double>(place.ranks_per_node()); }
  [[nodiscard]] bool one_node() const { return place.nodes == 1; }
  [[nodiscard]] std::size_t by_nodes() const {
    return static_cast<std::size_t>(std::min<std::int64_t>(place.nodes, 3) - 1);
  }
  [[nodiscard]] const Generation& generation() const {
    const int major = compute_capability;
    return kGenerations[major >= 10 ? 3 : major >= 9 ? 2 : major >= 8 ? 1 : 0];
  }
  [[nodiscard]] const StepLatencies& inner_steps() const { return nvlink ? kNvlinkSteps : kPcieSteps; }
  [[nodiscard]] bool has_nvls() const {
    return nvlink && cluster.node.fabric == Fabric::nvswitch && compute_capability >= 9 &&
           place.ranks_per_node() > 1;
  }
};

double in_gigabytes(BytesPerSecond rate) { return rate.value / 1e9; }

/// Rings over more than a bridged pair leave it by PCIe.
bool on_nvlink(const Cluster& cluster, const GroupPlace& place) {
  const Fabric fabric = cluster.node.fabric;
  return cluster.gpu.nvlink_effective.value > 0 &&
         (fabric == Fabric::nvswitch || fabric == Fabric::mesh ||
          (fabric == Fabric::nvlink_bridge && place.ranks_per_node() <= 2));
}

/// Share of the links' rate that a ring reaches. Peer-to-peer over PCIe loses some where it crosses sockets:
/// 8 RTX 4090 on two reach 20.6 of 24 GB/s, 4 on one 25.3 (nccl-tests logs published on GitHub). Nodes are
/// taken to have two sockets with half of the GPUs each.
double share_of_links(const Node& node, const GroupPlace& place) {
  if (node.fabric == Fabric::mesh)
    return node.link_fraction * share_of_mesh(node, std::max<std::int64_t>(2, place.ranks_per_node()));
  const bool one_socket = place.ranks_per_node() * 2 <= node.usual_gpus;
  return node.fabric == Fabric::pcie_peer && one_socket ? 1.0 : node.link_fraction;
}

Group group_of(const Cluster& cluster, const Network* between, Operation operation, const GroupPlace& place) {
  Group group{.cluster = cluster,
              .between = between,
              .operation = operation,
              .place = place,
              .compute_capability = capability_major(cluster.gpu.compute_capability),
              .nvlink = on_nvlink(cluster, place),
              .link = 0,
              .network = 0,
              .latency = 0};
  const BytesPerSecond rate = group.nvlink ? cluster.gpu.nvlink_effective : cluster.gpu.pcie_effective;
  group.link = in_gigabytes(
      within_host_path(cluster.node, place.ranks_per_node(), rate * share_of_links(cluster.node, place)));
  if (cluster.node.measured) group.link = in_gigabytes(cluster.node.measured->all_gather);
  if (group.one_node()) return group;
  const Network& network = *between;
  group.network = in_gigabytes(network_out_of_node(network, place.ranks_per_node() * place.side_by_side)) /
                  static_cast<double>(place.side_by_side);
  group.latency = std::max(0.0, (network.latency.value * 1e6 - kSmallOnTwoNodes) / 2);
  return group;
}

/// Rings of one node: of the speeds that are tried down to about half of the first that fits, the one that
/// uses most of the links; the bandwidth is that of the links, which a ring is measured to reach.
/// Source: search.cc, ncclTopoCompute.
Channels rings_of_one_node(const Group& group) {
  const double first = speed_within(group.compute_capability, group.link);
  Channels best{1, group.link, group.link};
  double used = 0;
  for (const double speed : speeds_of(group.compute_capability)) {
    if (speed > first || speed < 0.49 * first) continue;
    const auto count = std::min(static_cast<std::int64_t>(group.link / speed + 1e-9), kMostChannels);
    if (static_cast<double>(count) * speed <= used) continue;
    used = static_cast<double>(count) * speed;
    best = {count, group.link / static_cast<double>(count), group.link / static_cast<double>(count)};
  }
  return doubled_if_fast(best, group.compute_capability);
}

/// Bandwidth of all links of a GPU to a ring that leaves the node once for g ranks: it goes over g−1 of g
/// edges.
double links_of_open_ring(const Group& group) {
  return group.each() > 1 ? group.link * group.each() / (group.each() - 1) : group.network;
}

/// One channel per NIC; NICs that one GPU has for itself are one channel together.
std::int64_t network_channels(const Group& group) {
  const Network& network = *group.between;
  const double share = group.network * 1e9 / network.per_nic.value;
  const auto nics = static_cast<std::int64_t>(std::llround(share));
  return std::clamp<std::int64_t>(nics, 1, std::min(group.place.ranks_per_node(), kMostChannels));
}

Channels rings_over_nodes(const Group& group) {
  const std::int64_t count = network_channels(group);
  const double speed = std::min(group.network, links_of_open_ring(group)) / static_cast<double>(count);
  return doubled_if_fast({count, speed, speed}, group.compute_capability);
}

/// Trees have the rings' channels; over two nodes a tree can send twice as much inside as leaves.
Channels trees(const Group& group, const Channels& rings) {
  if (group.one_node()) return rings;
  const double most = links_of_open_ring(group) / rings.number();
  const double inside = group.each() > 1 ? std::min(2 * rings.inside, most) : 2 * rings.inside;
  return {rings.count, inside, rings.outside};
}

/// Each head's channel loads every GPU once and the head twice, so a GPU with h heads beside it carries h+1.
/// Source: search.cc, ncclTopoSearchTryNvls.
Channels switch_channels(const Group& group) {
  if (!group.has_nvls()) return {};
  const std::int64_t heads =
      group.one_node() ? std::min(group.place.ranks, kMostNvlsHeads) : network_channels(group);
  const double inside = speed_within(group.compute_capability, group.link / static_cast<double>(heads + 1));
  if (heads < 2 || inside == 0) return {};
  const double outside = group.one_node() ? inside : group.network / static_cast<double>(heads);
  return {heads, group.one_node() ? inside : std::min(inside, 2 * outside), outside};
}

double steps_of(const Group& group) {
  switch (group.operation) {
    case Operation::all_reduce: return 2 * (group.ranks() - 1);
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all: return group.ranks() - 1;
    case Operation::broadcast:
    case Operation::reduce: return group.ranks();
    case Operation::send_recv: return 1;
  }
  return 1;
}

/// Returns the steps of a ring that leave the node.
double network_steps(const Group& group) {
  if (group.one_node()) return 0;
  if (group.operation == Operation::send_recv) return 1;
  return (group.operation == Operation::all_reduce ? 2 : 1) * (group.nodes() - 1);
}

double network_step(const Group& group, const ByProtocol& steps, std::size_t protocol) {
  // With one rank per node latencies are fully exposed, and are those of a tree; Simple also flushes.
  const double own = group.each() == 1 ? kNetworkSteps.tree[protocol] : steps[protocol];
  return own + group.latency * (kProtocols[protocol] == Protocol::simple ? 2 : 1);
}

double ring_latency(const Group& group, std::size_t protocol) {
  if (group.operation == Operation::broadcast || group.operation == Operation::reduce)
    return kRingBase[protocol] + (group.one_node() ? group.inner_steps().ring[protocol]
                                                   : network_step(group, kNetworkSteps.ring, protocol));
  double inner = group.inner_steps().ring[protocol];
  if (!group.one_node())
    inner = std::max(inner, kNetworkOverhead * (kProtocols[protocol] == Protocol::simple ? 3 : 1));
  const double out = network_steps(group);
  return kRingBase[protocol] + (steps_of(group) - out) * inner +
         out * network_step(group, kNetworkSteps.ring, protocol);
}

/// ⌊log2(nodes)⌋.
double levels(const Group& group) { return std::floor(std::log2(group.nodes())); }

double tree_latency(const Group& group, std::size_t protocol) {
  return kTreeBase[protocol] + 2 * ((group.each() - 1) * group.inner_steps().tree[protocol] +
                                    levels(group) * network_step(group, kNetworkSteps.tree, protocol));
}

/// Bus bandwidth of a ring: what each link carries.
double ring_bandwidth(const Group& group, const Channels& rings, Protocol protocol) {
  const Generation& generation = group.generation();
  const double whole = rings.number() * rings.inside;
  if (protocol == Protocol::ll) return std::min(generation.ll[group.by_nodes()], whole * 0.5);
  if (protocol == Protocol::ll128) return std::min(whole * 0.92, rings.number() * generation.ring_ll128);
  return whole;
}

double tree_bandwidth(const Group& group, const Channels& tree, Protocol protocol) {
  const Generation& generation = group.generation();
  const std::size_t nodes = group.by_nodes();
  const double one = group.place.nodes <= 2 ? tree.inside : tree.outside;
  const double whole = std::min(tree.number() * one * 0.92, tree.number() * generation.tree[nodes]);
  if (protocol == Protocol::ll) return std::min(whole / 3.8, generation.ll[nodes]);
  if (protocol == Protocol::ll128)
    return std::min(whole * (group.one_node() ? 7.0 / 9.0 : 120.0 / 128.0),
                    tree.number() * generation.tree_ll128[nodes]);
  return whole;
}

/// The switch sums and copies, so that all_reduce pipelines two operations and the others leave out the
/// rank's own part.
double switch_bandwidth(const Group& group, const Channels& heads) {
  const double each = group.each();
  double inside = heads.inside * group.generation().nvls_efficiency * (heads.number() - 1) / heads.number();
  inside *= group.operation == Operation::all_reduce ? 2 : (each - 1) / each;
  if (group.one_node()) return heads.number() * inside;
  const double outside = heads.outside * (group.place.nodes <= 2 ? 2 : 1);
  return heads.number() * std::min({inside, outside, group.generation().nvls_tree[group.by_nodes()]});
}

/// Returns the bus bandwidth of all_to_all: of a rank's (n−1)/n·S the part for other nodes, (n−g)/n·S, passes
/// its share of the network. `ring`: bandwidth of a ring with this protocol, the bound on one node; `links`:
/// with Simple. Source: SimAI astra-sim calbusbw.cc.
double pairwise_bandwidth(const Group& group, double ring, double links) {
  if (group.one_node()) return ring;
  const double own = group.network / group.each();
  const bool to_one = group.operation == Operation::send_recv;
  const double away = to_one ? 1 : (group.ranks() - group.each()) / (group.ranks() - 1);
  const double inside = group.each() > 1 && !to_one ? group.link : own / away;
  return std::min(own / away, inside) * ring / links;
}

NcclWay way(Algorithm algorithm, Protocol protocol, double microseconds, double gigabytes_per_second) {
  return {.algorithm = algorithm,
          .protocol = protocol,
          .latency = Seconds(microseconds * 1e-6),
          .bandwidth = BytesPerSecond(gigabytes_per_second * 1e9)};
}

/// LL128 needs stores of 128 bytes that arrive whole, as NVLink's do.
bool possible(const Group& group, Protocol protocol) {
  return protocol != Protocol::ll128 || (group.nvlink && group.compute_capability >= 7);
}

NcclWay ring_way(const Group& group, const Channels& rings, std::size_t at) {
  const Protocol protocol = kProtocols[at];
  const bool pairwise = group.operation == Operation::all_to_all || group.operation == Operation::send_recv;
  double bandwidth = ring_bandwidth(group, rings, protocol);
  if (pairwise) bandwidth = pairwise_bandwidth(group, bandwidth, rings.number() * rings.inside);
  NcclWay ring =
      way(pairwise ? Algorithm::pairwise : Algorithm::ring, protocol, ring_latency(group, at),
          bandwidth * (group.operation == Operation::send_recv ? 1 : group.ranks() / steps_of(group)));
  if (protocol == Protocol::simple && !group.one_node() && group.operation == Operation::all_reduce) {
    ring.plateau = group.compute_capability < 8 ? kPlateauVolta : kPlateau;
    ring.plateau_from = Bytes(kPlateauBytes * rings.count * group.place.ranks);
  }
  return ring;
}

NcclWay tree_way(const Group& group, const Channels& tree, std::size_t at) {
  NcclWay result = way(Algorithm::tree, kProtocols[at], tree_latency(group, at),
                       0.5 * tree_bandwidth(group, tree, kProtocols[at]));
  result.tree_factors = kTreeSizes - 1;
  return result;
}

/// Between nodes a tree sends 2(N−1)/N·S out of each, which the network bounds whatever the model says of
/// bus bandwidth.
double most_between_nodes(const Group& group) {
  return group.network * group.nodes() / (2 * (group.nodes() - 1));
}

NcclWay switch_way(const Group& group, const Channels& heads) {
  const double bandwidth = switch_bandwidth(group, heads);
  const double of_message = bandwidth * group.ranks() / steps_of(group);
  const bool reduces = group.operation == Operation::all_reduce;
  if (group.one_node())
    return way(Algorithm::nvls, Protocol::simple, kNvlinkSteps.nvls, reduces ? of_message : bandwidth);
  const double step = kNetworkSteps.nvls_tree + 2 * group.latency;
  NcclWay result =
      way(Algorithm::nvls_tree, Protocol::simple, kNvlinkSteps.nvls_tree + 2 * levels(group) * step,
          std::min(of_message, most_between_nodes(group)));
  if (group.compute_capability >= 10) result.tree_factors = kTreeSizes;
  return result;
}

/// True if NVLS does the operation; on several nodes it does all_reduce alone.
bool switch_does(const Group& group) {
  if (group.operation == Operation::all_reduce) return true;
  return group.one_node() &&
         (group.operation == Operation::all_gather || group.operation == Operation::reduce_scatter);
}

/// The table is of powers of two; between them the factor goes straight from one to the next, so that a
/// longer message never takes less.
double tree_factor(const NcclWay& way, Bytes size) {
  if (way.tree_factors == 0 || size.value < 64) return 1;
  const auto units = static_cast<std::uint64_t>(size.value) >> 6;
  const int at = static_cast<int>(std::bit_width(units)) - 1;
  if (at >= way.tree_factors) return 1;
  const auto& factors = kTreeFactors[static_cast<std::size_t>(way.protocol)];
  const double here = factors[static_cast<std::size_t>(at)];
  const double next = at + 1 < way.tree_factors ? factors[static_cast<std::size_t>(at + 1)] : 1;
  const double part = static_cast<double>(size.value) / static_cast<double>(std::int64_t{64} << at) - 1;
  return here + (next - here) * part;
}

Seconds time_of(const NcclWay& way, Bytes size) {
  const double plateau = size >= way.plateau_from ? way.plateau : 1;
  const double bytes = static_cast<double>(size.value);
  return Seconds(way.latency.value * plateau + bytes / (way.bandwidth.value * tree_factor(way, size)));
}

}  // namespace

NcclChoice NcclModel::choose(Bytes size) const {
  NcclChoice best;
  for (const NcclWay& each : ways) {
    const Seconds time = time_of(each, size);
    if (best.way == nullptr || time < best.time) best = {&each, time};
  }
  return best;
}

NcclModel nccl_model(const Cluster& cluster, Operation operation, const GroupPlace& place,
                     const Network* network) {
  NcclModel model;
  if (place.ranks < 2) return model;
  if (network == nullptr && cluster.network) network = &*cluster.network;
  GroupPlace reached = place;
  if (network == nullptr) reached.nodes = 1;
  const Group group = group_of(cluster, network, operation, reached);
  const Channels rings = group.one_node() ? rings_of_one_node(group) : rings_over_nodes(group);
  const Channels tree = trees(group, rings), heads = switch_channels(group);
  for (std::size_t at = 0; at < kProtocols.size(); ++at) {
    if (!possible(group, kProtocols[at])) continue;
    model.ways.push_back(ring_way(group, rings, at));
    if (operation == Operation::all_reduce) model.ways.push_back(tree_way(group, tree, at));
  }
  if (heads.count > 0 && switch_does(group)) model.ways.push_back(switch_way(group, heads));
  return model;
}

}  // namespace zplan
