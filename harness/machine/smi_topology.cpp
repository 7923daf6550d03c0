#include "harness/machine/smi_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

namespace zplan::bench {

namespace {

/// Without escape sequences: the heading is underlined even where the output is a pipe.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i = std::min(text.find_first_not_of("0123456789;", i + 2), text.size() - 1);
      continue;
    }
    if (text[i] != '\r') out += text[i];
  }
  return out;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::istringstream stream(plain(text));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Fields between tabs, which the affinities need: one of them may be empty.
std::vector<std::string> fields_of(const std::string& line, char separator) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, separator);) {
    const std::size_t first = field.find_first_not_of(' '), last = field.find_last_not_of(' ');
    fields.push_back(first == std::string::npos ? "" : field.substr(first, last - first + 1));
  }
  return fields;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// "NV12": twelve links.
std::optional<int> nvlinks_of(std::string_view word) {
  const auto count = word.starts_with("NV") ? whole_number(word.substr(2)) : std::nullopt;
  return count && *count > 0 && *count < 1000 ? std::optional(static_cast<int>(*count)) : std::nullopt;
}

std::optional<Way> way_of(std::string_view word) {
  if (nvlinks_of(word)) return Way::nvlink;
  return word == "NV#" ? std::nullopt : from_name<Way>(word);
}

/// SOC is what drivers before 2018 print for SYS.
std::optional<Way> known_way(std::string_view word) {
  return word == "SOC" ? std::optional(Way::sys) : way_of(word);
}

[[noreturn]] void fail(const std::string& source, std::size_t line, const std::string& found) {
  throw InputError(fmt::format("{} line {}", source, line + 1), found,
                   "accepted: what `nvidia-smi topo -m` prints");
}

TopologyRow row_of(const std::string& line, std::size_t columns, const std::string& source,
                   std::size_t number) {
  const std::vector<std::string> words = words_of(line);
  TopologyRow row{.name = words[0], .ways = {}, .nvlinks = {}, .cpu_affinity = {}, .numa_affinity = {}};
  for (std::size_t i = 1; i <= columns; ++i) {
    const auto way = i < words.size() ? known_way(words[i]) : std::nullopt;
    if (!way)
      fail(source, number,
           i < words.size() ? in_quotes(words[i]) : fmt::format("{} of {} columns", i - 1, columns));
    row.ways.push_back(*way);
    row.nvlinks.push_back(nvlinks_of(words[i]).value_or(0));
  }
  const std::vector<std::string> fields = fields_of(line, '\t');
  if (fields.size() > columns + 1) row.cpu_affinity = fields[columns + 1];
  if (fields.size() > columns + 2) row.numa_affinity = fields[columns + 2];
  return row;
}

std::vector<std::string> columns_of(const std::string& heading) {
  std::vector<std::string> names = words_of(heading);
  names.erase(std::find_if(names.begin(), names.end(),
                           [](const std::string& word) { return word == "CPU" || word == "NUMA"; }),
              names.end());  // "CPU Affinity": what follows are no devices
  return names;
}

bool is_heading(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  return !words.empty() && words[0] == "GPU0" && !(words.size() > 1 && known_way(words[1]));
}

/// "  NIC0: mlx5_0".
std::optional<std::pair<std::string, std::string>> nic_name(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  if (words.size() != 2 || !words[0].starts_with("NIC") || words[0].back() != ':') return std::nullopt;
  return std::pair(words[0].substr(0, words[0].size() - 1), words[1]);
}

std::int64_t number_or_0(const std::string& text) { return whole_number(text).value_or(0); }

/// "00000000:1B:00.0" is "0000:1b:00.0".
std::string short_address(std::string address) {
  for (char& c : address)
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  return address.size() == 16 && address.starts_with("0000") ? address.substr(4) : address;
}

}  // namespace

SmiTopology parse_smi_topology(std::string_view text, const std::string& source) {
  const std::vector<std::string> lines = lines_of(text);
  const auto heading = std::find_if(lines.begin(), lines.end(), is_heading);
  if (heading == lines.end()) fail(source, 0, "no heading with GPU0");
  SmiTopology topology{.devices = columns_of(*heading), .rows = {}, .nic_names = {}};
  for (auto line = heading + 1; line != lines.end(); ++line) {
    const std::vector<std::string> words = words_of(*line);
    const std::size_t done = topology.rows.size();
    if (done < topology.devices.size()) {
      if (words.empty() || words[0] != topology.devices[done])
        fail(source, static_cast<std::size_t>(line - lines.begin()),
             fmt::format("no row of {}", topology.devices[done]));
      topology.rows.push_back(
          row_of(*line, topology.devices.size(), source, static_cast<std::size_t>(line - lines.begin())));
    } else if (const auto name = nic_name(*line)) {
      topology.nic_names.push_back(*name);
    }
  }
  if (topology.rows.size() < topology.devices.size())
    fail(source, lines.size(),
         fmt::format("ends before the row of {}", topology.devices[topology.rows.size()]));
  return topology;
}

std::vector<GpuLink> gpu_links(const SmiTopology& topology) {
  std::vector<GpuLink> links;
  const auto is_gpu = [&topology](std::size_t i) { return topology.devices[i].starts_with("GPU"); };
  const auto index = [&topology](std::size_t i) {
    return static_cast<int>(number_or_0(topology.devices[i].substr(3)));
  };
  for (std::size_t i = 0; i < topology.rows.size(); ++i)
    for (std::size_t j = i + 1; j < topology.rows.size(); ++j) {
      if (!is_gpu(i) || !is_gpu(j)) continue;
      const int lanes = topology.rows[i].nvlinks[j];
      links.push_back({.from = index(i),
                       .to = index(j),
                       .kind = lanes > 0 ? LinkKind::nvlink : LinkKind::pcie,
                       .lanes = lanes,
                       .peer_to_peer = lanes > 0 ? std::optional(true) : std::nullopt});
    }
  return links;
}

std::vector<GpuDevice> parse_smi_cards(std::string_view text) {
  std::vector<GpuDevice> cards;
  for (const std::string& line : lines_of(text)) {
    const std::vector<std::string> fields = fields_of(line, ',');
    const auto index = fields.size() == 7 ? whole_number(fields[0]) : std::nullopt;
    if (!index) continue;
    cards.push_back({.index = static_cast<int>(*index),
                     .name = fields[1],
                     .memory = number_or_0(fields[2]) * kMiB,
                     .compute_capability = fields[3].starts_with("[") ? "" : fields[3],
                     .pci = short_address(fields[4]),
                     .pcie_generation = static_cast<int>(number_or_0(fields[5])),
                     .pcie_lanes = static_cast<int>(number_or_0(fields[6]))});
  }
  return cards;
}

}  // namespace zplan::bench
