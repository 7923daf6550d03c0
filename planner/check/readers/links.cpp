#include "planner/check/readers/links.h"

#include <regex>

#include "hardware_profiles/profiles.h"

namespace zplan::check {

namespace {

bool is_network(const std::string& name) {
  for (const Network& network : built_in_networks())
    if (network.name == name) return true;
  return false;
}

/// "25 Gb/s per node, TCP" → "25g", one NIC through the kernel; without a rate that is known, "tcp".
std::string tcp_network(const std::string& text) {
  static const std::regex rate(R"((\d{2,3}) Gb/s per node)");
  std::smatch found;
  const std::string name = std::regex_search(text, found, rate) ? found[1].str() + "g" : "";
  const Network* known = nullptr;
  for (const Network& network : built_in_networks())
    if (network.name == name && network.nics == 1) known = &network;
  // A NIC that is driven through the kernel, not by RDMA.
  constexpr Seconds kSockets{90e-6};
  return known != nullptr && known->latency > kSockets ? name : "tcp";
}

/// "8x 200 Gb/s …" → "8x200g"; "1600 Gb/s per node" is what eight NICs make together.
std::string network_named(const std::string& text) {
  if (text.find("TCP") != std::string::npos) return tcp_network(text);
  static const std::regex nics(R"((\d{1,2})x ?(\d{2,4}) ?Gb/s)"), rate(R"((\d{3,4}) Gb/s per node)");
  std::smatch found;
  std::string name;
  if (std::regex_search(text, found, nics))
    name =
        (text.find("EFA") != std::string::npos ? "efa-" : "") + found[1].str() + "x" + found[2].str() + "g";
  else if (std::regex_search(text, found, rate))
    name = "8x" + std::to_string(std::stoi(found[1].str()) / 8) + "g";
  return is_network(name) ? name : std::string();
}

std::string node_named(const std::string& text) {
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (says("NVLink domain")) return "nvl72";
  if (says("NVLink bridge")) return "nvlink-bridge";
  if (says("NVSwitch")) return "nvswitch";
  if (says("through the host")) return "pcie-no-p2p";
  return says("peer-to-peer") ? "pcie" : "";
}

}  // namespace

NamedLinks links_named(std::string_view description) {
  const std::string text(description);
  return {node_named(text), network_named(text), text.find("NVLink domain") != std::string::npos};
}

}  // namespace zplan::check
