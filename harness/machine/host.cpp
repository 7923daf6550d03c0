#include "harness/machine/host.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

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

#ifdef ZPLAN_HAS_HWLOC
/// Returns the number of NUMA nodes, 0 if hwloc does not know. Without /sys it reports one for the whole
/// host.
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

}  // namespace zplan::bench
