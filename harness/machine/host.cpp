#include "harness/machine/host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/machine/nvml.h"
#include "harness/machine/system_files.h"

#ifdef ZPLAN_HAS_HWLOC
#include <hwloc.h>
#endif

namespace zplan::bench {

namespace {

template <class T>
Json or_null(const T& value) {
  return value == T{} ? Json(nullptr) : Json(value);
}

Json json_of(const GpuDevice& gpu) {
  return {{"index", gpu.index},
          {"name", gpu.name},
          {"memory_bytes", or_null(gpu.memory.value)},
          {"compute_capability", or_null(gpu.compute_capability)},
          {"pci", or_null(gpu.pci)},
          {"pcie_generation", or_null(gpu.pcie_generation)},
          {"pcie_lanes", or_null(gpu.pcie_lanes)}};
}

Json json_of(const GpuLink& link) {
  return {{"from", link.from},
          {"to", link.to},
          {"kind", to_name(link.kind)},
          {"lanes", link.lanes},
          {"switched", link.switched},
          {"peer_to_peer", link.peer_to_peer ? Json(*link.peer_to_peer) : Json(nullptr)}};
}

Json json_of(const Nic& nic) {
  return {{"name", nic.name}, {"bytes_per_second", nic.rate ? Json(nic.rate->value) : Json(nullptr)}};
}

template <class T>
Json list_of(const std::vector<T>& all) {
  Json list = Json::array();
  for (const T& each : all) list.push_back(json_of(each));
  return list;
}

}  // namespace

Json host_json(const Host& host) {
  return {{"name", host.name},
          {"ranks", host.ranks},
          {"processor", host.processor},
          {"cores", host.cores},
          {"numa_nodes", or_null(host.numa_nodes)},
          {"memory_bytes", host.memory.value},
          {"gpus", list_of(host.gpus)},
          {"links", list_of(host.links)},
          {"nics", list_of(host.nics)},
          {"notes", host.notes}};
}

namespace {

utsname system_names() {
  utsname names{};
  (void)uname(&names);
  return names;
}

int processors_online() { return static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L)); }

Bytes physical_memory() {
  return Bytes(std::max<std::int64_t>(sysconf(_SC_PHYS_PAGES), 0) * sysconf(_SC_PAGE_SIZE));
}

bool take_from_driver(Host& host, const std::string& nvml) {
  std::string note;
  auto facts = ask_nvml(nvml, note);
  if (!note.empty()) host.notes.push_back(note);
  if (!facts) return false;
  host.driver = std::move(facts->driver);
  host.cuda = std::move(facts->cuda);
  host.gpus = std::move(facts->gpus);
  host.links = std::move(facts->links);
  return true;
}

void take_from_bus(Host& host, const std::string& root) {
  host.gpus = gpus_on_the_bus(root);
  if (!host.gpus.empty())
    host.notes.emplace_back(
        "NVIDIA's driver does not answer: GPUs are listed as they are on the PCI bus, links are not known");
}

}  // namespace

#ifdef ZPLAN_HAS_HWLOC
int numa_node_count() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return 0;
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> freed(topology,
                                                                                 &hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) return 0;
  return std::max(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), 0);
}
#else
int numa_node_count() { return 0; }
#endif

Host read_host(const std::string& root, const std::string& nvml) {
  const utsname names = system_names();
  Host host{.name = names.nodename,
            .processor = processor_name(root),
            .cores = core_count(root),
            .numa_nodes = has_sysfs(root) ? numa_node_count() : 0,
            .memory = host_memory(root),
            .nics = nics(root)};
  if (!has_sysfs(root))
    host.notes.emplace_back(
        "/sys is not mounted: NUMA nodes, network adapters and a memory limit of the control group are not "
        "known");
  if (host.processor.empty()) host.processor = names.machine;
  if (host.cores == 0) host.cores = processors_online();
  if (host.memory.value == 0) host.memory = physical_memory();
  if (!take_from_driver(host, nvml)) take_from_bus(host, root);
  return host;
}

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
