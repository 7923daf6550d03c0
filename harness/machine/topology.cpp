#include "harness/machine/topology.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "harness/machine/numa.h"
#include "harness/machine/nvml.h"
#include "harness/machine/smi_topology.h"
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

bool take_from_driver(Host& host, const HostSources& sources) {
  std::string note;
  auto facts = ask_nvml(sources.nvml, note);
  if (!note.empty()) host.notes.push_back(note);
  if (!facts) return false;
  host.driver = std::move(facts->driver);
  host.cuda = std::move(facts->cuda);
  host.gpus = std::move(facts->gpus);
  host.links = std::move(facts->links);
  return true;
}

std::vector<GpuLink> links_from_smi(const HostSources& sources, std::vector<std::string>& notes) {
  const auto matrix = sources.run("nvidia-smi topo -m");
  if (!matrix) return {};
  try {
    return gpu_links(parse_smi_topology(*matrix, "nvidia-smi topo -m"));
  } catch (const InputError& error) {
    notes.emplace_back(error.what());
    return {};
  }
}

bool take_from_smi(Host& host, const HostSources& sources) {
  const auto cards = sources.run(
      "nvidia-smi "
      "--query-gpu=index,name,memory.total,compute_cap,pci.bus_id,pcie.link.gen.max,pcie.link.width.max "
      "--format=csv,noheader,nounits");
  if (!cards) return false;
  host.gpus = parse_smi_cards(*cards);
  if (host.gpus.size() > 1) host.links = links_from_smi(sources, host.notes);
  return !host.gpus.empty();
}

void take_from_bus(Host& host, const HostSources& sources) {
  host.gpus = cards_on_the_bus(sources.root);
  if (!host.gpus.empty())
    host.notes.emplace_back(
        "NVIDIA's driver does not answer: cards are listed as they are on the PCI bus, links are not known");
}

}  // namespace

std::optional<std::string> output_of(const std::string& command) {
  FILE* pipe = popen(("(" + command + ") 2>/dev/null </dev/null").c_str(), "re");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t got = fread(piece.data(), 1, piece.size(), pipe)) text.append(piece.data(), got);
  return pclose(pipe) == 0 ? std::optional(text) : std::nullopt;
}

Host read_host(const HostSources& given) {
  HostSources sources = given;
  if (!sources.run) sources.run = output_of;
  const utsname names = system_names();
  Host host{.name = names.nodename,
            .processor = processor_name(sources.root),
            .cores = core_count(sources.root),
            .numa_nodes = has_sysfs(sources.root) ? numa_node_count() : 0,
            .memory = host_memory(sources.root),
            .nics = nics(sources.root)};
  if (!has_sysfs(sources.root))
    host.notes.emplace_back(
        "/sys is not mounted: NUMA nodes, network adapters and a memory limit of the control group are not "
        "known");
  if (host.processor.empty()) host.processor = names.machine;
  if (host.cores == 0) host.cores = processors_online();
  if (host.memory.value == 0) host.memory = physical_memory();
  if (!take_from_driver(host, sources) && !take_from_smi(host, sources)) take_from_bus(host, sources);
  return host;
}

}  // namespace zplan::bench
