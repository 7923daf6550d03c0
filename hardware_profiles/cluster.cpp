#include "hardware_profiles/cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "hardware_profiles/gpu_names.h"
#include "hardware_profiles/link_speed.h"
#include "hardware_profiles/node.h"
#include "hardware_profiles/platform.h"
#include "models/base/error.h"
#include "models/base/format.h"
#include "models/base/names.h"

namespace zplan {

namespace {

constexpr std::int64_t kMostGpus = 1'000'000;
constexpr Bytes kLeastMemory{std::int64_t{512} << 20}, kMostMemory{std::int64_t{4096} << 30};
constexpr Bytes kLeastHostMemory = kGiB, kMostHostMemory{std::int64_t{1048576} << 30};

void check_counts(std::int64_t gpus, std::int64_t nodes) {
  if (gpus < 1 || gpus > kMostGpus)
    throw InputError("--gpus", std::to_string(gpus), "accepted: 1 to 1000000");
  if (nodes < 1 || nodes > gpus)
    throw InputError("--nodes", std::to_string(nodes),
                     fmt::format("accepted: 1 to {}, the number of GPUs", gpus));
  if (gpus % nodes != 0)
    throw InputError("--nodes", fmt::format("{} does not divide {} GPUs", nodes, gpus),
                     "accepted: a number of nodes that hold the same number of GPUs each");
}

void check_size(std::string_view option, Bytes size, Bytes least, Bytes most, std::string_view accepted) {
  if (size < least || size > most)
    throw InputError(std::string(option), format_bytes(size),
                     fmt::format("accepted: {} per {}", accepted, option == "--mem" ? "GPU" : "node"));
}

void check(const ClusterRequest& request) {
  check_counts(*request.gpus, *request.nodes);
  if (request.memory) check_size("--mem", *request.memory, kLeastMemory, kMostMemory, "0.5 to 4096 GiB");
  if (request.host_memory)
    check_size("--host-mem", *request.host_memory, kLeastHostMemory, kMostHostMemory, "1 to 1048576 GiB");
}

Gpu gpu_from_file(const std::string& path) {
  const Json json = parse_json(read_file(path), path);
  const HardwareProfiles read = read_profiles(JsonReader(json, path));
  if (read.gpus.empty())
    throw InputError("--gpu", in_quotes(path) + " is no GPU profile", "accepted: zplan.gpu/1");
  return read.gpus.front();
}

std::string rate_in_tera(const std::optional<FlopsPerSecond>& rate) {
  return fmt::format("{:g} TFLOP/s", rate ? rate->value / 1e12 : 0.0);
}

std::string generic_sentence(const Gpu& gpu) {
  return fmt::format(
      "no GPU named: a generic Ampere-class one, {} bf16, memory at {}, PCIe 4 x16 {} "
      "peer-to-peer, no NVLink, matrix products at {} of the peak (--gpu)",
      rate_in_tera(gpu.bf16), format_rate(gpu.memory_bandwidth), gpu.peer_to_peer ? "with" : "without",
      format_percent(efficiency_of(gpu).products));
}

/// Figures that have a sentence of their own where they are used, or are overruled by the request.
bool told_elsewhere(std::string_view figure, const ClusterRequest& request) {
  return figure == "usual_node" || figure == "usual_network" || (figure == "memory_mib" && request.memory);
}

/// Fills in GPUs and nodes of an instance: all GPUs of each node, or enough nodes for the requested GPUs.
void count_on(const Instance& instance, ClusterRequest& request) {
  if (!request.gpus && request.nodes && *request.nodes > 0)
    request.gpus = std::min(*request.nodes, kMostGpus) * instance.gpus;
  if (!request.gpus) request.gpus = instance.gpus;
  const bool fill = *request.gpus > instance.gpus && *request.gpus % instance.gpus == 0;
  if (!request.nodes && fill) request.nodes = *request.gpus / instance.gpus;
  const std::int64_t nodes = request.nodes.value_or(1);
  if (nodes > 0 && *request.gpus > nodes * instance.gpus)
    throw InputError(request.nodes ? "--gpus, --nodes" : "--gpus",
                     fmt::format("{}, but {} holds {} in each of {}", *request.gpus, instance.name,
                                 instance.gpus, nodes == 1 ? "1 node" : fmt::format("{} nodes", nodes)),
                     fmt::format("accepted: up to {}, or multiples of {}", instance.gpus, instance.gpus));
}

/// True if the request replaces this figure of the instance.
bool was_given(std::string_view figure, const ClusterRequest& asked) {
  return (figure == "network" && !asked.network.empty()) || (figure == "node" && !asked.node.empty()) ||
         (figure == "gpu" && !asked.gpu.empty()) || (figure == "host_memory_gib" && asked.host_memory);
}

/// Stores the instance, and adds an assumption for each reason why some are uncertain.
void take_instance(Cluster& cluster, const ClusterRequest& asked, const Instance& instance) {
  cluster.instance = instance;
  std::map<std::string, std::vector<std::string>> figures;
  for (const auto& [figure, why] : instance.assumed)
    if (!was_given(figure, asked)) figures[why].push_back(figure);
  for (const auto& [why, list] : figures)
    cluster.assumptions.push_back(fmt::format("{}: {} {} assumed: {}", instance.name, fmt::join(list, ", "),
                                              list.size() == 1 ? "is" : "are", why));
}

/// All three efficiencies come from one place: one sentence tells it.
bool told_with_another(const Gpu& gpu, std::string_view figure) {
  const auto source = [&gpu](const std::string& key) {
    const auto at = gpu.sources.find(key);
    return at == gpu.sources.end() ? std::string() : at->second;
  };
  return (figure == "attention_efficiency" || figure == "memory_efficiency") &&
         source(std::string(figure)) == source("matrix_efficiency");
}

void add_assumed_figures(Cluster& cluster, const ClusterRequest& request) {
  for (const std::string& figure : assumed_figures(cluster.gpu))
    if (!told_elsewhere(figure, request) && !told_with_another(cluster.gpu, figure))
      cluster.assumptions.push_back(
          fmt::format("{}: {} is {}", cluster.gpu.name, figure, cluster.gpu.sources.at(figure)));
}

/// Curves of the GPU that the profile names stand behind its own.
void add_curves_of_the_like(Gpu& gpu, const HardwareProfiles& profiles) {
  if (gpu.collectives_as.empty()) return;
  const Gpu& like = find_gpu(profiles, gpu.collectives_as, gpu.name + ": collectives_as");
  gpu.collectives.insert(gpu.collectives.end(), like.collectives.begin(), like.collectives.end());
}

/// Adds what is not known of platforms without a published run to compare with.
void remark_on_platform(Cluster& cluster) {
  const std::string_view unknown = platform_of(cluster.gpu.compute_capability).unknown;
  if (!unknown.empty()) cluster.assumptions.push_back(fmt::format("{}: {}", cluster.gpu.name, unknown));
}

bool is_own_name(const Gpu& gpu, std::string_view name) {
  const auto same = [&](std::string_view each) { return similarity(each, name) == 1; };
  return same(gpu.name) || std::any_of(gpu.aliases.begin(), gpu.aliases.end(), same);
}

/// Some names are those of GPUs of several sizes: says which is planned.
void remark_on_sizes(Cluster& cluster, const ClusterRequest& request, const HardwareProfiles& profiles) {
  const auto printed = gpus_printed_as(profiles.gpus, request.gpu);
  if (request.memory || printed.size() < 2 || is_own_name(cluster.gpu, request.gpu)) return;
  std::vector<std::string> names;
  for (const Gpu* each : printed) names.push_back(each->name);
  cluster.assumptions.push_back(fmt::format("{} is sold as {}: {} is planned (--gpu, --mem)", request.gpu,
                                            fmt::join(names, " and "), cluster.gpu.name));
}

void take_gpu(Cluster& cluster, const ClusterRequest& request, const HardwareProfiles& profiles) {
  if (request.gpu.empty()) {
    cluster.gpu = find_gpu(profiles, "generic");
    cluster.assumptions.push_back(generic_sentence(cluster.gpu));
    if (!request.memory)
      cluster.assumptions.push_back(fmt::format("{} of GPU memory, because neither a GPU nor --mem is given",
                                                format_bytes(cluster.gpu.memory)));
  } else {
    cluster.gpu =
        request.gpu.ends_with(".json") ? gpu_from_file(request.gpu) : find_gpu(profiles, request.gpu);
    remark_on_sizes(cluster, request, profiles);
    add_assumed_figures(cluster, request);
    remark_on_platform(cluster);
  }
  add_curves_of_the_like(cluster.gpu, profiles);
  cluster.memory = request.memory.value_or(cluster.gpu.memory);
  cluster.usable_memory = usable_memory(cluster.gpu, cluster.memory);
}

void check_fabric(const Gpu& gpu, const Node& node) {
  if (joins_by_gpu_links(node.fabric) && gpu.nvlink == BytesPerSecond{})
    throw InputError("--node", fmt::format("{}, but {} has no NVLink", in_quotes(node.name), gpu.name),
                     "accepted: pcie, pcie-no-p2p");
}

void remark_on_node(Cluster& cluster) {
  if (cluster.gpus_per_node > cluster.node.usual_gpus)
    cluster.assumptions.push_back(fmt::format("{} GPUs in one node, where {} nodes usually hold {} (--nodes)",
                                              cluster.gpus_per_node, cluster.node.name,
                                              cluster.node.usual_gpus));
  if (cluster.node.fabric == Fabric::pcie_peer && !cluster.gpu.peer_to_peer && cluster.gpus_per_node > 1)
    cluster.assumptions.push_back(
        fmt::format("peer-to-peer over PCIe between {} GPUs, which the stock driver does not offer (--node)",
                    cluster.gpu.name));
}

/// More cards without peer-to-peer than one root complex has slots for stand in servers of two sockets.
std::string usual_node(const Cluster& cluster) {
  constexpr std::int64_t kOfOneRoot = 4;
  const bool two_roots = cluster.gpu.usual_node == "pcie-no-p2p" && cluster.gpus_per_node > kOfOneRoot;
  return two_roots ? "pcie-no-p2p-2x4" : cluster.gpu.usual_node;
}

void take_node(Cluster& cluster, const ClusterRequest& request, const HardwareProfiles& profiles) {
  const bool alone = cluster.gpus_per_node == 1;
  const std::string usual = alone ? "single" : usual_node(cluster);
  cluster.node = find_node(profiles, request.node.empty() ? usual : request.node);
  if (cluster.node.name == "single" && !alone)
    throw InputError("--node", fmt::format("\"single\", but {} GPUs per node", cluster.gpus_per_node),
                     "accepted: as many nodes as GPUs, or another node type");
  check_fabric(cluster.gpu, cluster.node);
  if (request.node.empty() && !alone)
    cluster.assumptions.push_back(
        fmt::format("nodes of type {}, usual for {} (--node)", cluster.node.name, cluster.gpu.name));
  remark_on_node(cluster);
}

/// Sets the host's memory. If GPU and host share one pool, it is that of the GPUs.
void take_host_memory(Cluster& cluster, const ClusterRequest& request) {
  const bool shared = cluster.gpu.unified_memory && !request.host_memory;
  const Bytes usual = shared ? cluster.memory * cluster.gpus_per_node : cluster.node.host_memory;
  cluster.host_memory_per_node = request.host_memory.value_or(usual);
  if (!request.host_memory && !shared)
    cluster.assumptions.push_back(fmt::format("{} of host memory per node, usual for type {} (--host-mem)",
                                              format_bytes(cluster.host_memory_per_node), cluster.node.name));
}

/// Curves and peaks that were measured over PCIe speak of the slots and ways that they were measured on.
void drop_measured_over_pcie(Gpu& gpu) {
  const auto over_pcie = [](const auto& each) { return !joins_by_gpu_links(each.fabric); };
  std::erase_if(gpu.links, over_pcie);
  std::erase_if(gpu.collectives,
                [&over_pcie](const CollectiveCurve& each) { return each.nodes == 1 && over_pcie(each); });
}

/// GPUs behind one switch share its link to the host, which is as wide as a slot: what goes through the host
/// has its part of that. Peer-to-peer has the whole link where it does not leave the socket.
double share_of_slot(const Cluster& cluster, PciePath path) {
  const double through_host = cluster.node.link_fraction;
  if (cluster.node.fabric == Fabric::pcie_host)
    return through_host / static_cast<double>(cluster.host.gpus_on_uplink);
  return path == PciePath::sys ? through_host : 1.0;
}

/// Replaces the node's usual PCIe slots and paths by the requested ones.
void take_pcie(Cluster& cluster, const ClusterRequest& request) {
  if (!request.pcie && !request.path) return;
  drop_measured_over_pcie(cluster.gpu);
  if (request.pcie) {
    cluster.gpu.pcie = rated(*request.pcie);
    cluster.gpu.pcie_effective = reached(*request.pcie);
  }
  if (!request.path) return;
  if (*request.path <= PciePath::pxb) cluster.host.gpus_on_uplink = cluster.gpus_per_node;
  if (!joins_by_gpu_links(cluster.node.fabric))
    cluster.node.link_fraction = share_of_slot(cluster, *request.path);
  cluster.node.usual_gpus = cluster.gpus_per_node;  // half of them are on one socket
}

/// A part of a host that is rented has its part of the memory channels. Assumed: 3.2 GB/s a core (two EPYC
/// 7742) to 5.9 (two Xeon 8275CL).
constexpr BytesPerSecond kBandwidthOfCore{5e9};

void take_host(Cluster& cluster, const ClusterRequest& request) {
  std::int64_t cores = cluster.node.host_cores;
  BytesPerSecond bandwidth = cluster.node.host_bandwidth;
  if (cluster.instance) {
    cores = std::max<std::int64_t>(1, cluster.instance->vcpus / 2);
    bandwidth = std::min(bandwidth, kBandwidthOfCore * static_cast<double>(cores));
  }
  cluster.host.threads =
      request.host_threads.value_or(std::max<std::int64_t>(1, cores / cluster.gpus_per_node));
  cluster.host.bandwidth = request.host_bandwidth.value_or(bandwidth);
  cluster.host.disk = request.disk.value_or(cluster.host.disk);
}

/// One GPU sends nothing inside its node: how that speed came about is no assumption of the plan.
SourcedSpeed take_inside(Cluster& cluster) {
  SourcedSpeed inside = speed_inside(cluster.gpu, cluster.node, cluster.gpus_per_node);
  cluster.inside = inside.speed;
  cluster.inside_source = inside.source;
  if (cluster.gpus_per_node > 1 && !inside.source.starts_with("measured:"))
    cluster.assumptions.push_back("speed of collectives inside a node " + inside.source);
  return inside;
}

/// A node that is made of several hosts has a network's NICs for every eight of its GPUs.
void widen_for_hosts(Network& network, const Node& node, std::int64_t gpus_per_node) {
  constexpr std::int64_t kMostOfHost = 16, kUsual = 8;
  if (node.usual_gpus <= kMostOfHost || gpus_per_node <= kUsual) return;
  network.nics = network.nics * gpus_per_node / kUsual;
  network.per_node = network.per_nic * static_cast<double>(network.nics);
}

void take_network(Cluster& cluster, const ClusterRequest& request, const HardwareProfiles& profiles,
                  const SourcedSpeed& inside) {
  if (cluster.nodes == 1) {
    if (!request.network.empty()) (void)find_network(profiles, request.network);
    return;
  }
  cluster.network =
      find_network(profiles, request.network.empty() ? cluster.gpu.usual_network : request.network);
  widen_for_hosts(*cluster.network, cluster.node, cluster.gpus_per_node);
  if (request.network.empty())
    cluster.assumptions.push_back(fmt::format("network {} between nodes, {} out of each (--network)",
                                              cluster.network->name, format_rate(cluster.network->per_node)));
  const SourcedSpeed between =
      speed_between(cluster.gpu, inside, *cluster.network, cluster.nodes, cluster.gpus_per_node);
  cluster.between = between.speed;
  cluster.between_source = between.source;
}

}  // namespace

Bytes usable_memory(const Gpu& gpu, Bytes memory) {
  constexpr std::int64_t largest_part = 20;
  return memory - std::min(gpu.driver_reserved, Bytes(memory.value / largest_part));
}

ClusterRequest filled_in(ClusterRequest request, const HardwareProfiles& profiles) {
  if (!request.instance.empty()) {
    const Instance& instance = find_instance(profiles, request.instance);
    count_on(instance, request);
    if (request.gpu.empty()) request.gpu = instance.gpu;
    if (request.node.empty()) request.node = instance.node;
    if (request.network.empty()) request.network = instance.network;
    if (!request.host_memory) request.host_memory = instance.host_memory;
  }
  request.gpus = request.gpus.value_or(1), request.nodes = request.nodes.value_or(1);
  return request;
}

Cluster assemble_cluster(const ClusterRequest& asked, const HardwareProfiles& profiles) {
  const ClusterRequest request = filled_in(asked, profiles);
  check(request);
  Cluster cluster{
      .gpus = *request.gpus, .nodes = *request.nodes, .gpus_per_node = *request.gpus / *request.nodes};
  if (!request.instance.empty()) take_instance(cluster, asked, find_instance(profiles, request.instance));
  take_gpu(cluster, request, profiles);
  take_node(cluster, request, profiles);
  take_host_memory(cluster, request);
  take_host(cluster, request);
  take_pcie(cluster, request);
  const SourcedSpeed inside = take_inside(cluster);
  take_network(cluster, request, profiles, inside);
  return cluster;
}

GroupPlace place_group(const Cluster& cluster, std::int64_t ranks, std::int64_t stride) {
  const std::int64_t each = std::max<std::int64_t>(1, cluster.gpus_per_node);
  const std::int64_t span = ranks * stride;
  const bool inside = cluster.nodes == 1 || (span <= each && each % span == 0);
  if (inside) return {.ranks = ranks, .nodes = 1, .side_by_side = std::max<std::int64_t>(1, each / ranks)};
  const std::int64_t held = std::clamp<std::int64_t>(each / stride, 1, ranks);
  const std::int64_t nodes = std::max<std::int64_t>(2, (ranks + held - 1) / held);
  return {.ranks = ranks, .nodes = std::min(nodes, ranks), .side_by_side = std::min(each, stride)};
}

GroupPlace place_of_all(const Cluster& cluster) {
  return {.ranks = cluster.gpus, .nodes = cluster.nodes, .side_by_side = 1};
}

}  // namespace zplan
