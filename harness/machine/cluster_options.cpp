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

/// True if two sizes of memory differ by a few percent, which drivers keep or data sheets round.
bool same_memory(const Gpu& profile, const GpuDevice& gpu) {
  return gpu.memory.value == 0 || std::abs(ratio(gpu.memory, profile.memory) - 1.0) < 0.06;
}

/// The words that name the GPU, and its profile if there is one.
struct NamedGpu {
  std::vector<std::string> words;
  const Gpu* profile{};
};

NamedGpu named(const GpuDevice& gpu, const HardwareProfiles& profiles, Notes& notes) {
  const Gpu* profile = profile_of_name(profiles, gpu.name);
  if (profile != nullptr && same_memory(*profile, gpu)) return {{"--gpu", gpu.name}, profile};
  // Profiles tell GPUs of one name apart by "-48GB".
  const std::string sized = fmt::format("{}-{}GB", gpu.name, std::lround(ratio(gpu.memory, kGiB)));
  if (const Gpu* other = profile_of_name(profiles, sized); other != nullptr && same_memory(*other, gpu))
    return {{"--gpu", other->name}, other};
  const std::string memory = fmt::format("{:.2f}", std::floor(ratio(gpu.memory, kGiB) * 100) / 100);
  if (profile != nullptr) return {{"--gpu", gpu.name, "--mem", memory}, profile};
  notes.push_back(
      fmt::format("there is no profile of {}: a generic GPU's speed is used", in_quotes(gpu.name)));
  return {gpu.memory.value > 0 ? std::vector<std::string>{"--mem", memory} : std::vector<std::string>{},
          nullptr};
}

/// Returns the number of NVLink peers of every GPU.
std::vector<std::size_t> nvlink_peers(const Host& host) {
  std::map<int, std::size_t> peers;
  for (const GpuDevice& gpu : host.gpus) peers[gpu.index] = 0;
  for (const GpuLink& link : host.links)
    if (link.kind == LinkKind::nvlink) ++peers[link.from], ++peers[link.to];
  std::vector<std::size_t> counts;
  for (const auto& [index, count] : peers) counts.push_back(count);
  return counts;
}

/// Returns the node type of two GPUs with NVLink between them: on one board, or joined by a bridge.
std::string type_of_pair(const Host& host, const Gpu* profile, Notes& notes) {
  if (host.links.front().switched) return "nvswitch";
  if (profile == nullptr || profile->usual_node != "nvswitch") return "nvlink-bridge";
  notes.emplace_back("two GPUs of a kind that is sold on boards: they are taken as part of one");
  return "nvswitch";
}

std::string type_by_nvlink(const Host& host, const Gpu* profile, Notes& notes) {
  const std::vector<std::size_t> peers = nvlink_peers(host);
  const auto [least, most] = std::minmax_element(peers.begin(), peers.end());
  if (*most == 0) return {};
  if (host.gpus.size() == 2) return type_of_pair(host, profile, notes);
  if (*least == host.gpus.size() - 1) return "nvswitch";
  if (*least < 2) return "nvlink-bridge";
  notes.emplace_back(
      "GPUs reach some of the others by NVLink, not all: nvswitch is the nearest type of node");
  return "nvswitch";
}

std::string type_by_pcie(const Host& host, const Gpu* profile, Notes& notes) {
  const auto says = [](const GpuLink& link) { return link.peer_to_peer.has_value(); };
  if (!host.links.empty() && std::all_of(host.links.begin(), host.links.end(), says)) {
    const bool all = std::all_of(host.links.begin(), host.links.end(),
                                 [](const GpuLink& link) { return *link.peer_to_peer; });
    return all ? "pcie" : "pcie-no-p2p";
  }
  const bool usual = profile != nullptr && profile->peer_to_peer;
  notes.push_back(
      fmt::format("whether GPUs read each other's memory over PCIe is not known: assumed that they "
                  "{}, as is usual for this GPU",
                  usual ? "do" : "do not"));
  return usual ? "pcie" : "pcie-no-p2p";
}

std::string node_type(const Host& host, const Gpu* profile, Notes& notes) {
  if (host.gpus.size() < 2) return "single";
  const std::string by_nvlink = type_by_nvlink(host, profile, notes);
  return by_nvlink.empty() ? type_by_pcie(host, profile, notes) : by_nvlink;
}

bool needs_quotes(const std::string& word) {
  return word.empty() ||
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,/:=+") !=
             std::string::npos;
}

/// Returns a word in double quotes, with a backslash before characters that are special to a shell.
std::string quoted(const std::string& word) {
  std::string out = "\"";
  for (const char c : word) {
    if (std::string_view("\"\\$`").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

ClusterOptions cluster_options(const Host& host, const HardwareProfiles& profiles) {
  ClusterOptions options{.words = {}, .notes = {}};
  if (host.gpus.empty()) {
    options.notes.emplace_back("no GPUs were found on this host");
    return options;
  }
  const GpuDevice& first = host.gpus.front();
  if (std::any_of(host.gpus.begin(), host.gpus.end(),
                  [&first](const GpuDevice& each) { return each.name != first.name; }))
    options.notes.push_back(
        fmt::format("host {} has GPUs of several kinds: the options describe the first", host.name));
  const NamedGpu gpu = named(first, profiles, options.notes);
  options.words = {"--gpus", std::to_string(host.gpus.size()), "--nodes", "1"};
  options.words.insert(options.words.end(), gpu.words.begin(), gpu.words.end());
  options.words.insert(options.words.end(), {"--node", node_type(host, gpu.profile, options.notes),
                                             "--host-mem", std::to_string(host.memory.value / kGiB.value)});
  return options;
}

std::string command_line(const ClusterOptions& options) {
  std::vector<std::string> words;
  for (const std::string& word : options.words) words.push_back(needs_quotes(word) ? quoted(word) : word);
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace zplan::bench
