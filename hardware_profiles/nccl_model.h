#pragma once
// Time of a collective by the model with which NCCL chooses algorithm and protocol.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/operation.h"

namespace zplan {

/// One algorithm with one protocol: time = latency · plateau + bytes / (bandwidth · tree factor).
struct NcclWay {
  CollectiveAlgorithm algorithm{CollectiveAlgorithm::ring};
  CollectiveProtocol protocol{CollectiveProtocol::simple};
  Seconds latency{};
  BytesPerSecond bandwidth{};  ///< of the algorithm: message size over time
  double plateau{1};           ///< on the latency, from `plateau_from` on
  Bytes plateau_from{};
  int tree_factors{};  ///< sizes, by powers of two from 64 B on, at which trees are slower; 0: none
  friend bool operator==(const NcclWay&, const NcclWay&) = default;
};

/// The chosen algorithm and protocol, and its time.
struct NcclChoice {
  const NcclWay* way{};
  Seconds time{};
};

/// NCCL's algorithms and protocols for one operation on one group. Prepared once, used for many sizes.
struct NcclModel {
  std::vector<NcclWay> ways{};
  /// Returns the fastest way for a size, as NCCL chooses. Never empty for groups of two or more.
  [[nodiscard]] NcclChoice choose(Bytes size) const;
  [[nodiscard]] Seconds time(Bytes size) const { return choose(size).time; }
};

/// Computes ncclTopoTuneModel and ncclTopoGetAlgoTime for the channels that ncclTopoCompute would find, from
/// the links of the profiles. docs/collective-cost.md has the formulas. Source: NVIDIA/nccl 5067397
/// src/graph/tuning.cc, search.cc, topo.h. `network`: between the nodes; absent: the cluster's own.
[[nodiscard]] NcclModel nccl_model(const Cluster& cluster, Operation operation, const GroupPlace& place,
                                   const Network* network = nullptr);

}  // namespace zplan
