#include "harness/machine/topology.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "harness/machine/numa.h"
#include "harness/machine/nvml.h"
#include "harness/machine/system_files.h"

namespace zplan::bench {

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
