#pragma once
// One collective call, and what each rank of its group sends and receives.

#include <cstdint>
#include <vector>

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
  /// Of an uneven all_to_all, by rank of the group: elements that every rank sends to it, or, where it
  /// `returns`, that every rank receives from it. Empty: all parts are alike.
  std::vector<std::int64_t> counts{};
  bool returns{};
  bool operator==(const Work&) const = default;

  [[nodiscard]] Bytes bytes() const { return Bytes(elements * size_of(dtype)); }
};

/// Elements of one rank's buffers in a group of `ranks`.
struct Layout {
  std::int64_t send{}, receive{};
  bool operator==(const Layout&) const = default;
};
/// all_gather: a share out, all in; reduce_scatter: all out, a share in; else all of both, but for uneven
/// all_to_alls. send_recv sends to the next rank of the group and receives of the one before.
[[nodiscard]] Layout layout(const Work& work, std::int64_t ranks, std::int64_t rank);
/// Of the rank whose buffers are largest.
[[nodiscard]] Bytes largest_buffer(const Work& work, std::int64_t ranks);

/// A part of one of a rank's buffers, in elements.
struct Share {
  std::int64_t offset{}, elements{};
  bool operator==(const Share&) const = default;
};
/// What `rank` sends to `peer` in an all_to_all, and where that lies in its input.
[[nodiscard]] Share sent_to(const Work& work, std::int64_t ranks, std::int64_t rank, std::int64_t peer);
/// What it receives from `peer`, and where in its output.
[[nodiscard]] Share received_from(const Work& work, std::int64_t ranks, std::int64_t rank, std::int64_t peer);

/// Where the input of an in-place call lies in the buffer that also takes its output, in elements: of
/// all_gather the rank's own share. all_to_all and send_recv have no such form.
[[nodiscard]] std::int64_t in_place_send_offset(const Work& work, std::int64_t ranks, std::int64_t rank);
/// Likewise where its output lies: of reduce_scatter the rank's own share.
[[nodiscard]] std::int64_t in_place_receive_offset(const Work& work, std::int64_t ranks, std::int64_t rank);
/// Whether an even call takes a multiple of the group's size.
[[nodiscard]] bool is_shared_out(Operation operation);
[[nodiscard]] bool has_in_place_form(Operation operation);

/// The nearest size not above `bytes` that the operation can be done with: whole elements, the same for every
/// rank; at least one for each.
[[nodiscard]] Work work_of_size(Operation operation, DataType dtype, Bytes bytes, std::int64_t ranks);

}  // namespace zplan::bench
