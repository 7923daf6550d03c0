#include "harness/machine/cluster_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace zplan::bench {

namespace {

using Notes = std::vector<std::string>;

const Gpu* profile_of_name(const HardwareProfiles& profiles, const std::string& name) {
  try {
    return &find_gpu(profiles, name);
  } catch (const InputError&) {
    return nullptr;
  }
}

/// Drivers hold back, and data sheets round, a few percent.
bool same_memory(const Gpu& profile, const GpuDevice& card) {
  return card.memory.value == 0 || std::abs(ratio(card.memory, profile.memory) - 1.0) < 0.06;
}

/// "-48GB": how profiles tell cards of one name apart.
std::string size_suffix(const GpuDevice& card) {
  return fmt::format("-{}GB", std::lround(ratio(card.memory, kGiB)));
}

/// The words that name the card, and its profile where there is one.
struct Card {
  std::vector<std::string> words;
  const Gpu* profile{};
};

Card card_of(const GpuDevice& card, const HardwareProfiles& profiles, Notes& notes) {
  const Gpu* profile = profile_of_name(profiles, card.name);
  if (profile != nullptr && same_memory(*profile, card)) return {{"--gpu", card.name}, profile};
  const std::string sized = card.name + size_suffix(card);
  if (const Gpu* other = profile_of_name(profiles, sized); other != nullptr && same_memory(*other, card))
    return {{"--gpu", other->name}, other};
  const std::string memory = fmt::format("{:.2f}", std::floor(ratio(card.memory, kGiB) * 100) / 100);
  if (profile != nullptr) return {{"--gpu", card.name, "--mem", memory}, profile};
  notes.push_back(
      fmt::format("there is no profile of {}: a generic card stands in for its speed", in_quotes(card.name)));
  return {card.memory.value > 0 ? std::vector<std::string>{"--mem", memory} : std::vector<std::string>{},
          nullptr};
}

/// NVLink peers of every card.
std::vector<std::size_t> nvlink_peers(const Host& host) {
  std::map<int, std::size_t> peers;
  for (const GpuDevice& gpu : host.gpus) peers[gpu.index] = 0;
  for (const GpuLink& link : host.links)
    if (link.kind == LinkKind::nvlink) ++peers[link.from], ++peers[link.to];
  std::vector<std::size_t> counts;
  for (const auto& [index, count] : peers) counts.push_back(count);
  return counts;
}

const Gpu* profile_of(const Host& host, const HardwareProfiles& profiles) {
  Notes unheard;
  return card_of(host.gpus.front(), profiles, unheard).profile;
}

/// Two cards with NVLink between them: on one board, or two cards with a bridge.
std::string type_of_pair(const Host& host, const HardwareProfiles& profiles, Notes& notes) {
  if (host.links.front().switched) return "nvswitch";
  const Gpu* profile = profile_of(host, profiles);
  if (profile == nullptr || profile->usual_node != "nvswitch") return "nvlink-bridge";
  notes.emplace_back("two cards of a kind that comes on boards: taken as part of one");
  return "nvswitch";
}

std::string type_by_nvlink(const Host& host, const HardwareProfiles& profiles, Notes& notes) {
  const std::vector<std::size_t> peers = nvlink_peers(host);
  const auto [least, most] = std::minmax_element(peers.begin(), peers.end());
  if (*most == 0) return {};
  if (host.gpus.size() == 2) return type_of_pair(host, profiles, notes);
  if (*least == host.gpus.size() - 1) return "nvswitch";
  if (*least < 2) return "nvlink-bridge";
  notes.emplace_back(
      "cards reach some of the others by NVLink, not all: nvswitch is the nearest type of node");
  return "nvswitch";
}

std::string type_by_pcie(const Host& host, const HardwareProfiles& profiles, Notes& notes) {
  const auto says = [](const GpuLink& link) { return link.peer_to_peer.has_value(); };
  if (!host.links.empty() && std::all_of(host.links.begin(), host.links.end(), says)) {
    const bool all = std::all_of(host.links.begin(), host.links.end(),
                                 [](const GpuLink& link) { return *link.peer_to_peer; });
    return all ? "pcie" : "pcie-no-p2p";
  }
  const Gpu* profile = profile_of(host, profiles);
  const bool usual = profile != nullptr && profile->peer_to_peer;
  notes.push_back(
      fmt::format("whether cards read each other over PCIe is not known: {}, as is usual for this card",
                  usual ? "taken as so" : "taken as not so"));
  return usual ? "pcie" : "pcie-no-p2p";
}

bool same_cards(const Host& a, const Host& b) {
  return std::equal(a.gpus.begin(), a.gpus.end(), b.gpus.begin(), b.gpus.end(),
                    [](const GpuDevice& x, const GpuDevice& y) { return x.name == y.name; });
}

void note_differences(const std::vector<Host>& hosts, Notes& notes) {
  const Host& first = hosts.front();
  for (const Host& host : hosts)
    if (!same_cards(first, host))
      notes.push_back(fmt::format("host {} has other cards than {}: the options describe hosts like {}",
                                  host.name, first.name, first.name));
  for (const GpuDevice& gpu : first.gpus)
    if (gpu.name != first.gpus.front().name)
      return notes.push_back(
          fmt::format("host {} has cards of several kinds: the options describe the first", first.name));
}

/// Adapters of the fastest kind, and their rate.
struct Adapters {
  std::int64_t count{};
  BytesPerSecond rate{};
};
Adapters fastest(const Host& host) {
  Adapters best;
  for (const Nic& nic : host.nics)
    if (nic.rate && *nic.rate > best.rate) best.rate = *nic.rate;
  best.count = std::count_if(host.nics.begin(), host.nics.end(),
                             [&best](const Nic& nic) { return nic.rate && *nic.rate == best.rate; });
  return best;
}

const Network* network_of(const Adapters& adapters, const HardwareProfiles& profiles) {
  for (const Network& network : profiles.networks)
    if (network.nics == adapters.count && std::abs(adapters.rate.value / network.nic.value - 1.0) < 0.05)
      return &network;
  return nullptr;
}

void add_network(ClusterOptions& options, const Host& host, const HardwareProfiles& profiles) {
  const Adapters adapters = fastest(host);
  if (const Network* network = adapters.count > 0 ? network_of(adapters, profiles) : nullptr) {
    options.words.insert(options.words.end(), {"--network", network->name});
    return;
  }
  options.notes.push_back(
      adapters.count == 0
          ? std::string("how fast the network is, is not known: name it with --network")
          : fmt::format("no network profile has {} adapter{} of {:g} Gb/s: name the nearest with --network",
                        adapters.count, adapters.count == 1 ? "" : "s", adapters.rate.value * 8 / 1e9));
}

Bytes least_memory(const std::vector<Host>& hosts) {
  return std::min_element(hosts.begin(), hosts.end(),
                          [](const Host& a, const Host& b) { return a.memory < b.memory; })
      ->memory;
}

bool needs_quotes(const std::string& word) {
  return word.empty() ||
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,/:=+") !=
             std::string::npos;
}

/// In double quotes, with a backslash where the shell would read more than the character.
std::string quoted(const std::string& word) {
  std::string out = "\"";
  for (const char c : word) {
    if (std::string_view("\"\\$`").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string node_type(const Host& host, const HardwareProfiles& profiles, Notes& notes) {
  if (host.gpus.size() < 2) return "single";
  const std::string by_nvlink = type_by_nvlink(host, profiles, notes);
  return by_nvlink.empty() ? type_by_pcie(host, profiles, notes) : by_nvlink;
}

ClusterOptions cluster_options(const std::vector<Host>& hosts, const HardwareProfiles& profiles) {
  ClusterOptions options{.words = {}, .notes = {}};
  if (hosts.empty() || hosts.front().gpus.empty()) {
    options.notes.emplace_back("no cards were found on this host");
    return options;
  }
  const Host& first = hosts.front();
  note_differences(hosts, options.notes);
  const Card card = card_of(first.gpus.front(), profiles, options.notes);
  options.words = {"--gpus", std::to_string(first.gpus.size() * hosts.size()), "--nodes",
                   std::to_string(hosts.size())};
  options.words.insert(options.words.end(), card.words.begin(), card.words.end());
  options.words.insert(options.words.end(),
                       {"--node", node_type(first, profiles, options.notes), "--host-mem",
                        std::to_string(least_memory(hosts).value / kGiB.value)});
  if (hosts.size() > 1) add_network(options, first, profiles);
  return options;
}

std::string command_line(const ClusterOptions& options) {
  std::vector<std::string> words;
  for (const std::string& word : options.words) words.push_back(needs_quotes(word) ? quoted(word) : word);
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace zplan::bench
