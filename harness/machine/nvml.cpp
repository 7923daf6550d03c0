#include "harness/machine/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>

namespace zplan::bench {

namespace {

using namespace nvml;

/// Loads and initialises the library while it lives.
class Library {
 public:
  explicit Library(const std::string& name) : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL), &close) {}

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }

  /// Calls the function `name`. Returns -1 if there is none.
  template <class... Arguments>
  Result call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Result (*)(Arguments...)>(dlsym(handle_.get(), name));
    return function == nullptr ? -1 : function(arguments...);
  }

  [[nodiscard]] std::string error_text(Result result) const {
    auto* function = reinterpret_cast<const char* (*)(Result)>(dlsym(handle_.get(), "nvmlErrorString"));
    return function == nullptr || result < 0 ? "a function is missing" : function(result);
  }

 private:
  static void close(void* handle) {
    if (handle != nullptr) dlclose(handle);
  }
  std::unique_ptr<void, void (*)(void*)> handle_;
};

/// Returns the whole number that a function of a GPU reports, `fallback` if it fails.
template <class Number>
Number asked(const Library& library, const char* name, Device device, Number fallback) {
  Number value{};
  return library.call(name, device, &value) == 0 ? value : fallback;
}

/// Returns "0000:1b:00.0" for "00000000:1B:00.0", the same address.
std::string address(const Pci& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

std::string capability(const Library& library, Device device) {
  int major = 0, minor = 0;
  if (library.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) != 0) return {};
  return fmt::format("{}.{}", major, minor);
}

GpuDevice describe(const Library& library, Device device, int index) {
  std::array<char, 96> name{};
  Memory memory;
  Pci pci;
  (void)library.call("nvmlDeviceGetName", device, name.data(), static_cast<unsigned int>(name.size()));
  (void)library.call("nvmlDeviceGetMemoryInfo", device, &memory);
  const bool placed = library.call("nvmlDeviceGetPciInfo_v3", device, &pci) == 0;
  return {
      .index = index,
      .name = name.data(),
      .memory = Bytes(static_cast<std::int64_t>(memory.total)),
      .compute_capability = capability(library, device),
      .pci = placed ? address(pci) : "",
      .pcie_generation = static_cast<int>(asked(library, "nvmlDeviceGetMaxPcieLinkGeneration", device, 0U)),
      .pcie_lanes = static_cast<int>(asked(library, "nvmlDeviceGetMaxPcieLinkWidth", device, 0U))};
}

/// The NVLinks of a GPU: how many go to each other GPU, and to switches.
struct LinksOf {
  int to_switch{};
  std::map<std::string, int> to_gpu;  ///< by PCI address
};

LinksOf links_of(const Library& library, Device device) {
  LinksOf links;
  for (unsigned int i = 0; i < static_cast<unsigned int>(kMostLinks); ++i) {
    int active = 0, kind = -1;
    if (library.call("nvmlDeviceGetNvLinkState", device, i, &active) != 0) break;
    if (active == 0) continue;
    Pci remote;
    if (library.call("nvmlDeviceGetNvLinkRemoteDeviceType", device, i, &kind) == 0 &&
        kind == static_cast<int>(RemoteKind::nvswitch))
      ++links.to_switch;
    else if (library.call("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, i, &remote) == 0)
      ++links.to_gpu[address(remote)];
  }
  return links;
}

/// Returns nothing if the driver does not report it.
std::optional<bool> peer_to_peer(const Library& library, Device from, Device to) {
  for (const P2pCapability each : {P2pCapability::read, P2pCapability::write}) {
    int status = 0;
    if (library.call("nvmlDeviceGetP2PStatus", from, to, static_cast<int>(each), &status) != 0)
      return std::nullopt;
    if (status != 0) return false;
  }
  return true;
}

/// The links between each pair of GPUs.
class Pairs {
 public:
  Pairs(const Library& library, const std::vector<Device>& devices, const std::vector<GpuDevice>& gpus)
      : library_(library), devices_(devices), gpus_(gpus) {
    for (const Device device : devices) links_.push_back(links_of(library, device));
  }

  [[nodiscard]] std::vector<GpuLink> all() const {
    std::vector<GpuLink> pairs;
    for (std::size_t i = 0; i < devices_.size(); ++i)
      for (std::size_t j = i + 1; j < devices_.size(); ++j) pairs.push_back(between(i, j));
    return pairs;
  }

 private:
  [[nodiscard]] GpuLink between(std::size_t i, std::size_t j) const {
    GpuLink link{.from = gpus_[i].index,
                 .to = gpus_[j].index,
                 .peer_to_peer = peer_to_peer(library_, devices_[i], devices_[j])};
    const auto direct = links_[i].to_gpu.find(gpus_[j].pci);
    const int switched = std::min(links_[i].to_switch, links_[j].to_switch);
    link.switched = switched > 0;
    link.lanes = link.switched ? switched : direct == links_[i].to_gpu.end() ? 0 : direct->second;
    link.kind = link.lanes > 0                              ? LinkKind::nvlink
                : link.peer_to_peer == std::optional(false) ? LinkKind::host
                                                            : LinkKind::pcie;
    return link;
  }

  const Library& library_;
  const std::vector<Device>& devices_;
  const std::vector<GpuDevice>& gpus_;
  std::vector<LinksOf> links_;
};

std::string driver_version(const Library& library) {
  std::array<char, 96> text{};
  (void)library.call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned int>(text.size()));
  return text.data();
}

/// Returns "13.0" for 13000.
std::string cuda_version(const Library& library) {
  int version = 0;
  if (library.call("nvmlSystemGetCudaDriverVersion_v2", &version) != 0) return {};
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

DriverFacts facts_of(const Library& library) {
  DriverFacts facts{
      .driver = driver_version(library), .cuda = cuda_version(library), .gpus = {}, .links = {}};
  unsigned int count = 0;
  (void)library.call("nvmlDeviceGetCount_v2", &count);
  std::vector<Device> devices;
  for (unsigned int i = 0; i < count; ++i) {
    Device device = nullptr;
    // A GPU that is lost or not accessible still counts.
    if (library.call("nvmlDeviceGetHandleByIndex_v2", i, &device) != 0) continue;
    devices.push_back(device);
    facts.gpus.push_back(describe(library, device, static_cast<int>(i)));
  }
  facts.links = Pairs(library, devices, facts.gpus).all();
  return facts;
}

}  // namespace

std::optional<DriverFacts> ask_nvml(const std::string& name, std::string& note) {
  const Library library(name);
  if (!library.loaded()) return std::nullopt;
  if (const Result result = library.call("nvmlInit_v2"); result != 0) {
    note = fmt::format("{} does not start: {}", name, library.error_text(result));
    return std::nullopt;
  }
  DriverFacts facts = facts_of(library);
  (void)library.call("nvmlShutdown");
  return facts;
}

}  // namespace zplan::bench
