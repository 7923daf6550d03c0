#pragma once
// How fast GPUs exchange data: fabrics, measured link speeds, points of measured curves.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

/// How the GPUs of a node reach each other.
enum class Fabric { nvswitch, nvlink_bridge, pcie_peer, pcie_host };
template <>
struct EnumNames<Fabric> {
  static constexpr std::array<std::pair<Fabric, std::string_view>, 4> table{{
      {Fabric::nvswitch, "nvswitch"},
      {Fabric::nvlink_bridge, "nvlink-bridge"},
      {Fabric::pcie_peer, "pcie"},
      {Fabric::pcie_host, "pcie-no-p2p"},
  }};
};

/// Bus bandwidth that a collective reaches on a link with large messages, and the latency of a small one.
/// Bus bandwidth as nccl-tests defines it (NVIDIA/nccl-tests doc/PERFORMANCE.md): algorithm bandwidth times
/// 2(n-1)/n for all_reduce, (n-1)/n for all_gather and reduce_scatter.
struct LinkSpeed {
  BytesPerSecond all_reduce{};
  BytesPerSecond all_gather{};  ///< and reduce_scatter
  Seconds latency{};
  friend bool operator==(const LinkSpeed&, const LinkSpeed&) = default;
};

/// Peaks published for one kind of card on one fabric.
struct MeasuredLink {
  Fabric fabric{Fabric::nvswitch};
  std::int64_t gpus{};
  LinkSpeed speed{};
  std::string source{};
  friend bool operator==(const MeasuredLink&, const MeasuredLink&) = default;
};

/// One point of a measured curve: time of one call, by message size. `operation` is one of kCollectiveNames.
struct CollectivePoint {
  std::string operation{};  ///< "all_gather"
  Fabric fabric{Fabric::nvswitch};
  std::int64_t gpus{};
  std::int64_t nodes{1};
  Bytes bytes{};  ///< as nccl-tests counts: of all_gather and reduce_scatter the buffer over all ranks
  Seconds seconds{};
  friend bool operator==(const CollectivePoint&, const CollectivePoint&) = default;
};

/// The operations that a curve may be of, as nccl-tests and the report name them.
inline constexpr std::array<std::string_view, 7> kCollectiveNames{
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv"};

}  // namespace zplan
