#include "planner/check/readers/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hardware_profiles/cluster.h"
#include "models/base/format.h"
#include "models/base/pattern.h"
#include "planner/check/readers/values.h"

namespace zplan::check {

namespace {

bool is_network(const std::string& name) {
  for (const Network& network : built_in_networks())
    if (network.name == name) return true;
  return false;
}

/// "25 Gb/s per node, TCP" → "25g", one NIC through the kernel; without a rate that is known, "tcp".
std::string tcp_network(const std::string& text) {
  static const Pattern rate(R"((\d{2,3}) Gb/s per node)");
  const std::optional<Pattern::Match> found = rate.find(text);
  const std::string name = found ? std::string((*found)[1]) + "g" : "";
  const Network* known = nullptr;
  for (const Network& network : built_in_networks())
    if (network.name == name && network.nics == 1) known = &network;
  // A NIC that is driven through the kernel, not by RDMA.
  constexpr Seconds kSockets{90e-6};
  return known != nullptr && known->latency > kSockets ? name : "tcp";
}

/// "8x 200 Gb/s …" → "8x200g"; "1600 Gb/s per node" is what eight NICs make together.
std::string network_named(const std::string& text) {
  if (text.find("TCP") != std::string::npos) return tcp_network(text);
  static const Pattern nics(R"((\d{1,2})x ?(\d{2,4}) ?Gb/s)"), rate(R"((\d{3,4}) Gb/s per node)");
  std::string name;
  if (const auto found = nics.find(text))
    name = fmt::format("{}{}x{}g", text.find("EFA") != std::string::npos ? "efa-" : "", (*found)[1],
                       (*found)[2]);
  else if (const auto whole = rate.find(text))
    name = fmt::format("8x{}g", std::stoi(std::string((*whole)[1])) / 8);
  return is_network(name) ? name : std::string();
}

std::string node_named(const std::string& text) {
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (says("NVLink domain")) return "nvl72";
  if (says("NVLink bridge")) return "nvlink-bridge";
  if (says("NVSwitch")) return "nvswitch";
  if (says("through the host")) return "pcie-no-p2p";
  return says("peer-to-peer") ? "pcie" : "";
}

/// Reads what the source of a row says of its machines.
void read_machine(const JsonReader& row, ClusterRequest& request) {
  constexpr double kMostBandwidth = 1e6;
  if (const auto path = row.find("topology")) request.path = named<PciePath>(*path);
  if (const auto threads = row.find("host_threads")) request.host_threads = threads->integer(1, 100'000);
  if (const auto rate = row.find("host_gb_per_s"))
    request.host_bandwidth = BytesPerSecond(rate->number(1, kMostBandwidth) * 1e9);
}

bool any_link(const BenchResult& result, LinkKind kind) {
  return std::any_of(result.hosts.begin(), result.hosts.end(), [kind](const BenchHost& host) {
    return std::find(host.links.begin(), host.links.end(), kind) != host.links.end();
  });
}

}  // namespace

std::optional<std::string> profile_named(const std::string& name, std::optional<Bytes> memory, Skip& skip) {
  const auto unknown = [&](const std::string& said) {
    skip.add("a GPU that is not in the catalogue", said);
    return std::nullopt;
  };
  const Gpu* gpu = nullptr;
  try {
    gpu = &find_gpu(built_in_profiles(), name);
  } catch (const InputError&) {
    return unknown(name);
  }
  constexpr double kSameMemory = 0.05;
  const auto has = static_cast<double>(gpu->memory.value);
  // Sources write GB for GiB, too.
  constexpr double kBinary = 1.073741824;
  const auto differs = [&](double given) { return std::abs(given - has) > kSameMemory * has; };
  if (const double given = memory ? static_cast<double>(memory->value) : has;
      differs(given) && differs(given * kBinary))
    return unknown(name + " with " + format_bytes(*memory));
  return gpu->name;
}

std::int64_t usual_nodes(std::int64_t gpus) {
  constexpr std::int64_t kPerNode = 8;
  return gpus <= kPerNode ? 1 : gpus % kPerNode == 0 ? gpus / kPerNode : gpus;
}

Cluster usual_cluster(const std::string& profile, std::int64_t gpus, std::optional<Bytes> memory) {
  return assemble_cluster({.gpu = profile,
                           .memory = memory,
                           .gpus = gpus,
                           .nodes = usual_nodes(gpus),
                           .host_memory = std::nullopt},
                          built_in_profiles());
}

void read_ranks_per_node(const JsonReader& row, Cluster& cluster) {
  const auto given = row.find("ranks_per_node");
  if (!given) return;
  const std::int64_t ranks = given->integer(1, kMostRanks);
  if (cluster.gpus % ranks != 0) given->fail(std::to_string(ranks), "accepted: a divisor of the ranks");
  cluster.gpus_per_node = ranks;
  cluster.nodes = cluster.gpus / ranks;
}

std::optional<std::string> profile_of_card(const HardwareProfiles& hardware, const std::string& card) {
  for (std::string words = card; !words.empty();) {
    try {
      return find_gpu(hardware, words).name;
    } catch (const InputError&) {  // no GPU of this name: try it with a word less
    }
    const std::size_t blank = words.find_last_of(' ');
    words = blank == std::string::npos ? "" : words.substr(0, blank);
  }
  return std::nullopt;
}

namespace {

/// Returns the least number of NVLink domains that divide the GPUs evenly.
std::int64_t domains_of(std::int64_t gpus, const std::string& node) {
  const std::int64_t most = find_node(built_in_profiles(), node).usual_gpus;
  std::int64_t domains = (gpus + most - 1) / most;
  while (gpus % domains != 0) ++domains;
  return domains;
}

}  // namespace

Cluster linked_cluster(const std::string& profile, const JsonReader& row, std::int64_t gpus) {
  const NamedLinks links = links_named(row.text_or("interconnect", ""));
  const JsonReader nodes = row.at("nodes");
  const std::int64_t hosts = nodes.integer(1, kMostRanks);
  const std::int64_t count = links.one_domain ? domains_of(gpus, links.node) : hosts;
  if (gpus % count != 0) nodes.fail(std::to_string(count), "accepted: a divisor of gpus");
  ClusterRequest request{.gpu = profile,
                         .memory = std::nullopt,
                         .gpus = gpus,
                         .nodes = count,
                         .node = links.node,
                         .network = count > 1 ? links.network : "",
                         .host_memory = std::nullopt};
  read_machine(row, request);
  return assemble_cluster(request, built_in_profiles());
}

NamedLinks links_named(std::string_view description) {
  const std::string text(description);
  return {node_named(text), network_named(text), text.find("NVLink domain") != std::string::npos};
}

bool has_nvlink(Fabric fabric) { return fabric == Fabric::nvswitch || fabric == Fabric::nvlink_bridge; }

std::string node_seen(const BenchResult& result, const Gpu& card, const HardwareProfiles& hardware) {
  if (any_link(result, LinkKind::host)) return "pcie-no-p2p";
  if (any_link(result, LinkKind::pcie)) return "pcie";
  if (!any_link(result, LinkKind::nvlink) || card.nvlink == BytesPerSecond{}) return card.usual_node;
  return has_nvlink(find_node(hardware, card.usual_node).fabric) ? card.usual_node : "nvlink-bridge";
}

}  // namespace zplan::check
