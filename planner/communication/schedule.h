#pragma once
// The collectives of one optimizer step as DeepSpeed issues them, which is not what the ZeRO papers tabulate:
// docs/communication.md.

#include <vector>

#include "planner/memory/timeline.h"
#include "planner/sharding/rank_model.h"
#include "planner/sharding/shard.h"

namespace zplan {

enum class Operation { all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, send_recv };
template <>
struct EnumNames<Operation> {
  static constexpr std::array<std::pair<Operation, std::string_view>, 7> table{{
      {Operation::all_reduce, "all_reduce"},
      {Operation::all_gather, "all_gather"},
      {Operation::reduce_scatter, "reduce_scatter"},
      {Operation::broadcast, "broadcast"},
      {Operation::reduce, "reduce"},
      {Operation::all_to_all, "all_to_all"},
      {Operation::send_recv, "send_recv"},
  }};
};

enum class Group { data, tensor };
template <>
struct EnumNames<Group> {
  static constexpr std::array<std::pair<Group, std::string_view>, 2> table{
      {{Group::data, "data"}, {Group::tensor, "tensor"}}};
};

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
  bool operator==(const Collective&) const = default;
};

struct Schedule {
  std::vector<Collective> collectives;
  Bytes host_to_device, device_to_host;  ///< offload traffic per GPU and optimizer step
  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] Bytes wire_bytes_per_gpu() const;
};

/// Bytes that a ring sends from each GPU for one operation on `bytes` over `ranks`: 2·(n−1)/n all_reduce,
/// (n−1)/n all_gather, reduce_scatter and all_to_all, 1 broadcast and reduce. Source: nccl-tests
/// doc/PERFORMANCE.md.
[[nodiscard]] Bytes ring_wire_bytes(Operation operation, Bytes bytes, std::int64_t ranks);

[[nodiscard]] Schedule schedule(const Model& model, const Training& training, const Strategy& strategy,
                                const RankModel& rank, const Shard& shard);

}  // namespace zplan
