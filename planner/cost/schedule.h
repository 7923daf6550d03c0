#pragma once
// The collectives of one optimizer step as a run issues them (planner/simulation/), added up by kind. That
// is not what the ZeRO papers tabulate: docs/communication.md.

#include <cstdint>
#include <string_view>
#include <vector>

#include "hardware_profiles/operation.h"
#include "planner/step/call.h"

namespace zplan {

struct RankModel;
struct Shard;
struct Strategy;
struct Training;

/// Calls of one kind in one phase of an optimizer step (all micro-steps together).
struct Collective {
  Operation operation{Operation::all_reduce};
  Group group{Group::data};
  std::int64_t group_size{1};
  Phase phase{Phase::backward};
  std::string_view dtype;
  std::string_view purpose;  ///< what it moves: "gradients", "layer weights", "logits", …
  std::int64_t count{};      ///< calls
  Elements
      elements;  ///< sum over the calls: output of an all_gather, input of a reduce_scatter, else the buffer
  Bytes bytes;   ///< the same in bytes, as nccl-tests counts sizes
  Bytes wire_bytes_per_gpu;  ///< what a ring sends from one GPU
  /// By the algorithm that NCCL would choose; see price(). From one GPU to others of its node, and out of it.
  Bytes inside_bytes_per_gpu{}, outside_bytes_per_gpu{};
  Seconds time{};                                            ///< of all calls, hidden or not
  CollectiveAlgorithm algorithm{CollectiveAlgorithm::ring};  ///< of the largest call
  CollectiveProtocol protocol{CollectiveProtocol::simple};   ///< likewise
  bool operator==(const Collective&) const = default;
};

struct Schedule {
  std::vector<Collective> collectives;
  Bytes host_to_device, device_to_host;  ///< offload traffic per GPU and optimizer step
  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] Bytes wire_bytes_per_gpu() const;
  [[nodiscard]] Bytes inside_bytes_per_gpu() const;
  [[nodiscard]] Bytes outside_bytes_per_gpu() const;
  [[nodiscard]] std::int64_t calls() const;
};

/// True if a call counts among those of a kind.
[[nodiscard]] bool is_of_kind(const Call& call, const Collective& kind);

/// The calls of one optimizer step by kind, in the order in which each kind is first issued; and what offload
/// moves beside them.
[[nodiscard]] Schedule schedule(const std::vector<Call>& calls, const Training& training,
                                const Strategy& strategy, const RankModel& rank, const Shard& shard);

}  // namespace zplan
