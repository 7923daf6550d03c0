#include "harness/machine/interfaces.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "harness/machine/system_files.h"

namespace zplan::bench {

namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> counter_at(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value && value >= 0 ? std::optional(value) : std::nullopt;
}

/// What it sends goes out by another one: Linux links it as "lower_NAME".
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

/// The ninth number of a line of /proc/net/dev: eight are of what was received.
std::optional<std::int64_t> sent_in(const std::string& numbers) {
  std::istringstream words(numbers);
  std::int64_t value = 0;
  for (int i = 0; i < 9 && words >> value;) ++i;
  return words && value >= 0 ? std::optional(value) : std::nullopt;
}

/// Lines "eth0: 1 2 …".
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
