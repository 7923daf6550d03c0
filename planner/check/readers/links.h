#pragma once
// Links between GPUs as people write them.

#include <string>
#include <string_view>

namespace zplan::check {

/// The node type and the network that a description means; empty where it does not say.
struct NamedLinks {
  std::string node;
  std::string network;
  bool one_domain{};  ///< all GPUs share one NVLink switch, over however many hosts
  bool operator==(const NamedLinks&) const = default;
};

/// "NVSwitch", "NVLink bridge", "PCIe 4 with peer-to-peer", "8x 200 Gb/s InfiniBand HDR per node", "TCP
/// sockets", "1600 Gb/s per node, RoCE" (eight NICs).
[[nodiscard]] NamedLinks links_named(std::string_view description);

}  // namespace zplan::check
