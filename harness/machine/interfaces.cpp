#include "harness/machine/interfaces.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

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

}  // namespace

SentBytes sent_bytes(const std::string& root) {
  constexpr std::int64_t kWord = 4;
  SentBytes all;
  for (const fs::path& each : entries(fs::path(root) / "sys/class/net"))
    if (const auto bytes = counter_at(each / "statistics/tx_bytes"); bytes && !stands_on_another(each))
      all[each.filename()] = *bytes;
  for (const fs::path& device : entries(fs::path(root) / "sys/class/infiniband"))
    for (const fs::path& port : entries(device / "ports"))
      if (const auto words = counter_at(port / "counters/port_xmit_data"))
        all[device.filename().string() + ":" + port.filename().string()] = *words * kWord;
  return all;
}

}  // namespace zplan::bench
