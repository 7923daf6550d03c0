#pragma once
// Links between GPUs: fabrics, measured speeds, measured curves of collectives.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hardware_profiles/operation.h"
#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

/// Connections of the GPUs of a node. In a mesh each is wired to each other one, so that a group uses
/// only the links among its own (AMD's Infinity Fabric, Gaudi's Ethernet ports, Ascend's HCCS).
enum class Fabric { nvswitch, nvlink_bridge, pcie_peer, pcie_host, mesh };
template <>
struct EnumNames<Fabric> {
  static constexpr std::array<std::pair<Fabric, std::string_view>, 5> table{{
      {Fabric::nvswitch, "nvswitch"},
      {Fabric::nvlink_bridge, "nvlink-bridge"},
      {Fabric::pcie_peer, "pcie"},
      {Fabric::pcie_host, "pcie-no-p2p"},
      {Fabric::mesh, "mesh"},
  }};
};

/// True if links of their own (NVLink and other vendors' equivalents), not PCIe, join a node's GPUs.
[[nodiscard]] constexpr bool joins_by_gpu_links(Fabric fabric) {
  return fabric == Fabric::nvswitch || fabric == Fabric::nvlink_bridge || fabric == Fabric::mesh;
}

/// Bus bandwidth that a collective reaches on a link with large messages, and the latency of a small one.
/// Bus bandwidth as nccl-tests defines it (NVIDIA/nccl-tests doc/PERFORMANCE.md): algorithm bandwidth times
/// 2(n-1)/n for all_reduce, (n-1)/n for all_gather and reduce_scatter.
struct LinkSpeed {
  BytesPerSecond all_reduce{};
  BytesPerSecond all_gather{};  ///< and reduce_scatter
  Seconds latency{};
  friend bool operator==(const LinkSpeed&, const LinkSpeed&) = default;
};

/// Peaks published for one kind of GPU on one fabric.
struct MeasuredLink {
  Fabric fabric{Fabric::nvswitch};
  std::int64_t gpus{};
  LinkSpeed speed{};
  std::string source{};
  friend bool operator==(const MeasuredLink&, const MeasuredLink&) = default;
};

/// One message size of a measured curve.
struct CollectivePoint {
  Bytes bytes{};      ///< as nccl-tests counts: of all_gather and reduce_scatter the buffer over all ranks
  Seconds seconds{};  ///< of one call
  friend bool operator==(const CollectivePoint&, const CollectivePoint&) = default;
};

/// A straight line through a curve, latency + wire bytes / bus bandwidth, and the curve's relative distance
/// from it. For people: plans use the points.
struct CurveFit {
  Seconds latency{};
  BytesPerSecond bus_bandwidth{};
  double median_residual{}, worst_residual{};
  friend bool operator==(const CurveFit&, const CurveFit&) = default;
};

/// Time of one operation by message size, measured on one group that had the machines to itself.
struct CollectiveCurve {
  Operation operation{Operation::all_reduce};
  Fabric fabric{Fabric::nvswitch};
  std::int64_t gpus{};
  std::int64_t nodes{1};
  std::string network{};                  ///< name of the network's profile; empty on one node, or if unknown
  std::string source{};                   ///< empty: the profile's own machine
  std::string record{};                   ///< id of the published log, as in tests/reference: "n02"
  std::vector<CollectivePoint> points{};  ///< by ascending size
  std::optional<CurveFit> fit{};          ///< if the profile has one
  friend bool operator==(const CollectiveCurve&, const CollectiveCurve&) = default;
};

}  // namespace zplan
