#pragma once
// Time and traffic of one collective call, from measured curves if there are any, else from NCCL's own model.
// docs/collective-cost.md

#include <string>
#include <string_view>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/nccl_model.h"

namespace zplan {

/// Cost of one call.
struct CollectiveCost {
  Seconds time{};
  /// Sent by one GPU, the mean over the group: to others of its node (NVLink or PCIe), and out of the node.
  Bytes inside{}, outside{};
  CollectiveAlgorithm algorithm{CollectiveAlgorithm::ring};  ///< assumed: NCCL's choice by its model
  CollectiveProtocol protocol{CollectiveProtocol::simple};   ///< assumed: NCCL's choice by its model
  bool measured{};                                           ///< true if the time is from a measured curve
  friend bool operator==(const CollectiveCost&, const CollectiveCost&) = default;
};

/// Returns "ring LL128".
[[nodiscard]] std::string name_of_way(const CollectiveCost& cost);

/// Bytes that a GPU sends for one operation on `bytes`, S, over n ranks on N nodes, g on each; the mean over
/// the group.
///
///   ring       all_reduce 2(n−1)/n·S, all_gather and reduce_scatter (n−1)/n·S, broadcast and reduce S;
///              one of the g edges per node leaves it: 1/g of that, all of it where g = 1
///   tree       every edge carries S up and S down: 2(n−1)/n·S, of which 2(N−1)/(N·g)·S leaves the node
///   NVLS       the switch reads S of every GPU and each head sends S/n: (n+1)/n·S; all_gather S/n,
///              reduce_scatter S
///   NVLSTree   NVLS inside, (g+1)/g·S, and a tree between the nodes, 2(N−1)/(N·g)·S
///   pairwise   (n−1)/n·S, of which (n−g)/n·S leaves the node; send_recv S, of which 1/g does
/// Source: NVIDIA/nccl-tests doc/PERFORMANCE.md; NVIDIA/nccl src/device/all_reduce.h, reduce_scatter.h.
struct WireBytes {
  Bytes inside{}, outside{};
  friend bool operator==(const WireBytes&, const WireBytes&) = default;
};
[[nodiscard]] WireBytes wire_bytes(CollectiveAlgorithm algorithm, Operation operation,
                                   const GroupPlace& place, Bytes bytes);

/// Restricts the sources that a pricer uses.
struct PricingRules {
  bool curves{true};  ///< false: NCCL's model alone
  std::string_view
      without_record{};  ///< id of a log whose curves are not used, as when predictions of it are checked
};

/// Computes the cost of one operation on one group. Prepared once, used for many sizes.
///
/// A measured curve of the group's own shape is interpolated between its points, straight in the logarithms
/// of size and time. A curve of another number of GPUs or nodes, of another network, or of all_gather for
/// reduce_scatter, is carried over by NCCL's model M: t(S) = t_curve(S)·M(S, this group)/M(S, its group), so
/// that errors of the model for these links stay corrected. On one switch that keeps the bus bandwidth and
/// scales the latency with the steps of the ring. Uses the nearest of several curves: of this operation
/// first, then by the ratios of GPUs per node and of nodes, where another network counts as a ratio of two;
/// the first of equal ones. Beyond its sizes the next nearest that has them goes on. Below the smallest size
/// of all the model does, with the ratio that it has there; above the largest the bus bandwidth stays. Peaks
/// of profiles (`measured` of a node, `links` of a GPU without curves of the operation on this fabric) stand
/// for curves of groups inside a node: the node's peak and latency added, the GPU's as one message of 4 GiB.
/// Cluster::link_factors: with a link f times as fast a call takes L + (t(S) − L)/f, L = t(1 byte) its
/// latency, which stays. Over a faster network the links inside the nodes become the bound: such a call
/// takes no less than its ring's bytes at their bus bandwidth, or than t(S) where that is shorter.
class CollectivePricer {
 public:
  CollectivePricer(const Cluster& cluster, Operation operation, const GroupPlace& place,
                   const PricingRules& rules = {});

  [[nodiscard]] CollectiveCost cost(Bytes size) const;
  [[nodiscard]] Seconds time(Bytes size) const;
  [[nodiscard]] bool measured() const { return !curve_.empty(); }
  /// Returns the source of its times, for the report: "measured: …", "scaled: …" or "NCCL's model: …".
  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  struct Point {
    double log_size, log_time;
    friend bool operator<(double size, const Point& point) { return size < point.log_size; }
  };
  [[nodiscard]] bool is_other(const CollectiveCurve& curve, const Cluster& cluster) const;
  void take(const CollectiveCurve& curve, const Cluster& cluster);
  void join(std::vector<Point> smaller, std::vector<Point> larger);
  [[nodiscard]] Seconds on_curve(Bytes size) const;
  [[nodiscard]] Seconds on_links_as_they_are(Bytes size) const;

  Operation operation_;
  GroupPlace place_;
  NcclModel model_;
  std::vector<Point> curve_;
  Bytes smallest_{1};        ///< of the curve
  double below_{1};          ///< measured over modelled there
  double factor_{1};         ///< of Cluster::link_factors
  BytesPerSecond inside_{};  ///< bus bandwidth inside the nodes of a group that spans some; 0: bounds nothing
  std::string source_;
};

/// Returns the cost of a single call. For many calls keep a CollectivePricer.
[[nodiscard]] CollectiveCost collective_cost(const Cluster& cluster, Operation operation,
                                             const GroupPlace& place, Bytes bytes);

}  // namespace zplan
