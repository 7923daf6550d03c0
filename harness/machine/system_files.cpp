#include "harness/machine/system_files.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>

namespace zplan::bench {

namespace {

namespace fs = std::filesystem;

/// Returns the first line, empty if the file cannot be read, as many in /sys.
std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Returns the whole number at the begin of the text.
std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? std::string() : std::string(text.substr(first, last - first + 1));
}

/// Returns the lines "key : value" of a file of /proc.
void each_entry(const fs::path& path,
                const std::function<void(const std::string&, const std::string&)>& take) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const std::size_t colon = line.find(':'); colon != std::string::npos)
      take(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
}

/// Returns a limit in bytes, nothing for "max" or a number larger than any memory.
std::optional<std::int64_t> limit_of(const fs::path& path) {
  const auto limit = number_of(line_of(path));
  return limit && *limit > 0 ? limit : std::nullopt;
}

/// Parses "400 Gb/sec (4X NDR)".
std::optional<BytesPerSecond> infiniband_rate(const std::string& text) {
  std::istringstream words(text);
  double rate = 0;
  std::string unit;
  if (!(words >> rate >> unit) || unit != "Gb/sec" || rate <= 0) return std::nullopt;
  return BytesPerSecond(rate * 1e9 / 8);
}

/// Parses megabits per second; -1 or unreadable without a link.
std::optional<BytesPerSecond> interface_rate(const fs::path& interface) {
  const auto speed = number_of(line_of(interface / "speed"));
  return speed && *speed > 0 ? std::optional(BytesPerSecond(static_cast<double>(*speed) * 1e6 / 8))
                             : std::nullopt;
}

bool is_active(const fs::path& port) {
  const std::string state = line_of(port / "state");  // "4: ACTIVE"
  return state.empty() || state.find("ACTIVE") != std::string::npos;
}

std::vector<Nic> infiniband_ports(const std::string& root, std::set<std::string>& interfaces) {
  std::vector<Nic> all;
  for (const fs::path& device : entries(fs::path(root) / "sys/class/infiniband")) {
    for (const fs::path& each : entries(device / "device/net")) interfaces.insert(each.filename());
    const std::vector<fs::path> ports = entries(device / "ports");
    for (const fs::path& port : ports) {
      if (!is_active(port)) continue;
      const std::string name = device.filename(), number = port.filename();
      all.push_back({.name = ports.size() == 1 ? name : name + ":" + number,
                     .rate = infiniband_rate(line_of(port / "rate"))});
    }
  }
  return all;
}

/// Returns the interfaces for which `counts` is true, without loopback and those of InfiniBand devices.
std::vector<Nic> interfaces_where(const std::string& root, const std::set<std::string>& without,
                                  const std::function<bool(const fs::path&)>& counts) {
  std::vector<Nic> all;
  for (const fs::path& each : entries(fs::path(root) / "sys/class/net")) {
    const std::string name = each.filename();
    if (name != "lo" && !without.contains(name) && counts(each))
      all.push_back({.name = name, .rate = interface_rate(each)});
  }
  return all;
}

/// Returns 4 for "16.0 GT/s PCIe". Source: PCI Express base specification, rate per lane by generation.
int generation_of(const std::string& speed) {
  const double rate = std::strtod(speed.c_str(), nullptr);
  int generation = 0;
  for (const double least : {2.5, 5.0, 8.0, 16.0, 32.0, 64.0}) generation += rate >= least ? 1 : 0;
  return generation;
}

bool is_nvidia_gpu(const fs::path& device) {
  const std::string kind = line_of(device / "class");  // 0x0300: graphics, 0x0302: 3D controller
  return line_of(device / "vendor") == "0x10de" && (kind.starts_with("0x0300") || kind.starts_with("0x0302"));
}

}  // namespace

bool there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> all;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    all.push_back(it->path());
  std::sort(all.begin(), all.end());
  return all;
}

bool has_sysfs(const std::string& root) { return !entries(fs::path(root) / "sys").empty(); }

std::string processor_name(const std::string& root) {
  std::string name;
  each_entry(fs::path(root) / "proc/cpuinfo", [&name](const std::string& key, const std::string& value) {
    if (key == "model name" && name.empty()) name = value;
  });
  return name;
}

int core_count(const std::string& root) {
  int entries_seen = 0;
  std::string package;
  std::set<std::pair<std::string, std::string>> cores;
  each_entry(fs::path(root) / "proc/cpuinfo", [&](const std::string& key, const std::string& value) {
    if (key == "processor") ++entries_seen;
    if (key == "physical id") package = value;
    if (key == "core id") cores.emplace(package, value);
  });
  return cores.empty() ? entries_seen : static_cast<int>(cores.size());
}

Bytes host_memory(const std::string& root) {
  std::int64_t bytes = 0;
  each_entry(fs::path(root) / "proc/meminfo", [&bytes](const std::string& key, const std::string& value) {
    if (key == "MemTotal") bytes = number_of(value).value_or(0) * 1024;
  });
  const fs::path groups = fs::path(root) / "sys/fs/cgroup";
  for (const char* file : {"memory.max", "memory/memory.limit_in_bytes"})
    if (const auto limit = limit_of(groups / file)) bytes = bytes == 0 ? *limit : std::min(bytes, *limit);
  return Bytes(bytes);
}

std::vector<Nic> nics(const std::string& root) {
  std::set<std::string> of_infiniband;
  std::vector<Nic> all = infiniband_ports(root, of_infiniband);
  std::vector<Nic> others =
      interfaces_where(root, of_infiniband, [](const fs::path& each) { return there(each / "device"); });
  if (all.empty() && others.empty())
    others = interfaces_where(root, of_infiniband, [](const fs::path& each) {
      return line_of(each / "operstate") == "up" && !there(each / "bridge");
    });
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

std::vector<GpuDevice> gpus_on_the_bus(const std::string& root) {
  std::vector<GpuDevice> all;
  for (const fs::path& device : entries(fs::path(root) / "sys/bus/pci/devices")) {
    if (!is_nvidia_gpu(device)) continue;
    all.push_back(
        {.index = static_cast<int>(all.size()),
         .name = "NVIDIA device " + line_of(device / "device"),
         .pci = device.filename(),
         .pcie_generation = generation_of(line_of(device / "max_link_speed")),
         .pcie_lanes = static_cast<int>(number_of(line_of(device / "max_link_width")).value_or(0))});
  }
  return all;
}

namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> counter_at(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value && value >= 0 ? std::optional(value) : std::nullopt;
}

/// True if the interface sends through another one, which Linux links as "lower_NAME".
bool stands_on_another(const fs::path& interface) {
  const std::vector<fs::path> all = entries(interface);
  return std::any_of(all.begin(), all.end(), [](const fs::path& each) {
    const std::string name = each.filename();
    return name.starts_with("lower_") || name == "bridge" || name == "bonding";
  });
}

SentBytes by_sysfs(const fs::path& root) {
  SentBytes all;
  for (const fs::path& each : entries(root / "sys/class/net"))
    if (const auto bytes = counter_at(each / "statistics/tx_bytes"); bytes && !stands_on_another(each))
      all[each.filename()] = *bytes;
  return all;
}

/// Returns the ninth number of a line of /proc/net/dev, after eight of received traffic.
std::optional<std::int64_t> sent_in(const std::string& numbers) {
  std::istringstream words(numbers);
  std::int64_t value = 0;
  for (int i = 0; i < 9 && words >> value;) ++i;
  return words && value >= 0 ? std::optional(value) : std::nullopt;
}

/// Reads lines "eth0: 1 2 …".
SentBytes by_proc(const fs::path& root) {
  const fs::path folder = root / "proc/net";
  std::ifstream file(folder / "dev");
  SentBytes all;
  for (std::string line; std::getline(file, line);) {
    const std::size_t name = line.find_first_not_of(' '), colon = line.find(':');
    if (colon == std::string::npos) continue;  // a heading
    const std::string interface = line.substr(name, colon - name);
    if (const auto bytes = sent_in(line.substr(colon + 1));
        bytes && !there(folder / "bonding" / interface) && !there(folder / "vlan" / interface))
      all[interface] = *bytes;
  }
  return all;
}

}  // namespace

SentBytes sent_bytes(const std::string& root) {
  constexpr std::int64_t kWord = 4;
  SentBytes all = there(fs::path(root) / "sys/class/net") ? by_sysfs(root) : by_proc(root);
  for (const fs::path& device : entries(fs::path(root) / "sys/class/infiniband"))
    for (const fs::path& port : entries(device / "ports"))
      if (const auto words = counter_at(port / "counters/port_xmit_data"))
        all[device.filename().string() + ":" + port.filename().string()] = *words * kWord;
  return all;
}

}  // namespace zplan::bench
