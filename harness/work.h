#pragma once
// One collective call, and what each rank of its group sends and receives.

#include <cstdint>

#include "hardware_profiles/data_type.h"
#include "hardware_profiles/operation.h"
#include "models/base/quantity.h"

namespace zplan::bench {

/// One call on a group. Reductions sum. `elements` is counted as nccl-tests counts sizes: of an all_gather
/// the output over all ranks, of a reduce_scatter the input, else the buffer; those two and all_to_all take a
/// multiple of the group's size.
struct Work {
  Operation operation{Operation::all_reduce};
  DataType dtype{DataType::float32};
  std::int64_t elements{};
  bool in_place{};
  int root{};  ///< of broadcast and reduce: rank of the group
  bool operator==(const Work&) const = default;

  [[nodiscard]] Bytes bytes() const { return Bytes(elements * size_of(dtype)); }
};

/// Elements of one rank's buffers in a group of `ranks`.
struct Layout {
  std::int64_t send{}, receive{};
  bool operator==(const Layout&) const = default;
};
/// all_gather: a share out, all in; reduce_scatter: all out, a share in; else all of both. send_recv sends to
/// the next rank of the group and receives of the one before.
[[nodiscard]] Layout layout(const Work& work, std::int64_t ranks);

/// Where the input of an in-place call lies in the buffer that also takes its output, in elements: of
/// all_gather the rank's own share. all_to_all and send_recv have no such form.
[[nodiscard]] std::int64_t in_place_send_offset(const Work& work, std::int64_t ranks, std::int64_t rank);
/// Likewise where its output lies: of reduce_scatter the rank's own share.
[[nodiscard]] std::int64_t in_place_receive_offset(const Work& work, std::int64_t ranks, std::int64_t rank);
[[nodiscard]] bool has_in_place_form(Operation operation);

/// The nearest size not above `bytes` that the operation can be done with: whole elements, the same for every
/// rank; at least one for each.
[[nodiscard]] Work work_of_size(Operation operation, DataType dtype, Bytes bytes, std::int64_t ranks);

}  // namespace zplan::bench
