#pragma once
// One collective call, and what each rank of its group sends and receives.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hardware_profiles/operation.h"
#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan::bench {

/// All ranks, those that share a model's tensors, or those of data parallelism.
enum class GroupKind { world, tensor, data };

/// A division of all ranks into groups, which run at once.
///   world   all ranks
///   tensor  `size` neighbours
///   data    every `tensor`-th rank; if `size` is less than all of those, every `stride`-th of a block of
///   them
struct Groups {
  GroupKind kind{GroupKind::world};
  std::int64_t size{1};
  std::int64_t stride{1};  ///< between neighbours, in ranks of the whole data-parallel group
  std::int64_t tensor{1};  ///< how many ranks share a model's tensors
  bool operator==(const Groups&) const = default;
};

/// Returns the ranks of the group that `rank` of `ranks` is in, ascending. Throws InputError, which names
/// `place`, if the ranks cannot be divided so.
[[nodiscard]] std::vector<int> members(const Groups& groups, std::int64_t ranks, std::int64_t rank,
                                       std::string_view place);
/// Returns the number of such groups that run at once.
[[nodiscard]] std::int64_t at_once(const Groups& groups, std::int64_t ranks);
/// Returns "world of 4", "tensor groups of 2", "data groups of 2, stride 2".
[[nodiscard]] std::string name_of(const Groups& groups);

}  // namespace zplan::bench

namespace zplan {

template <>
struct EnumNames<bench::GroupKind> {
  static constexpr std::array<std::pair<bench::GroupKind, std::string_view>, 3> table{
      {{bench::GroupKind::world, "world"},
       {bench::GroupKind::tensor, "tensor"},
       {bench::GroupKind::data, "data"}}};
};

}  // namespace zplan

namespace zplan::bench {

/// One call on a group. Reductions sum. `elements` counts as nccl-tests does: the output over all ranks of an
/// all_gather, the input of a reduce_scatter, else the buffer; for those two and all_to_all it is a multiple
/// of the group's size.
struct Work {
  Operation operation{Operation::all_reduce};
  DataType dtype{DataType::float32};
  std::int64_t elements{};
  bool in_place{};
  int root{};  ///< of broadcast and reduce: rank of the group
  /// Uneven all_to_all: by rank of the group the elements that every rank sends to it, or, if `returns` is
  /// true, receives from it. Empty if all parts are alike.
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
/// Returns the elements that a rank sends and receives. all_gather sends a share, reduce_scatter receives
/// one, the others send and receive all, but for an uneven all_to_all. send_recv sends to the next rank of
/// the group and receives from the one before.
[[nodiscard]] Layout layout(const Work& work, std::int64_t ranks, std::int64_t rank);
/// Returns the bytes of the largest buffer of any rank.
[[nodiscard]] Bytes largest_buffer(const Work& work, std::int64_t ranks);

/// A part of one of a rank's buffers, in elements.
struct Share {
  std::int64_t offset{}, elements{};
  bool operator==(const Share&) const = default;
};
/// Returns the part of its input that `rank` sends to `peer` in an all_to_all.
[[nodiscard]] Share sent_to(const Work& work, std::int64_t ranks, std::int64_t rank, std::int64_t peer);
/// Returns the part of its output that `rank` receives from `peer`.
[[nodiscard]] Share received_from(const Work& work, std::int64_t ranks, std::int64_t rank, std::int64_t peer);

/// Returns where the input of an in-place call begins in the common buffer, in elements: all_gather's at the
/// rank's own share. all_to_all and send_recv have no such form.
[[nodiscard]] std::int64_t in_place_send_offset(const Work& work, std::int64_t ranks, std::int64_t rank);
/// Returns where the output of an in-place call begins: reduce_scatter's at the rank's own share.
[[nodiscard]] std::int64_t in_place_receive_offset(const Work& work, std::int64_t ranks, std::int64_t rank);
/// True if an even call takes a multiple of the group's size.
[[nodiscard]] bool is_shared_out(Operation operation);
[[nodiscard]] bool has_in_place_form(Operation operation);

/// Returns the largest call of at most `bytes`: whole elements, equally many and at least one for every rank.
[[nodiscard]] Work work_of_size(Operation operation, DataType dtype, Bytes bytes, std::int64_t ranks);

}  // namespace zplan::bench

namespace zplan {

/// Returns size over time, nccl-tests' "algbw". `bytes` is what nccl-tests
/// prints as the size: the whole buffer over all ranks for all_gather and reduce_scatter.
[[nodiscard]] BytesPerSecond algorithm_bandwidth(Bytes bytes, Seconds time);

/// Returns the bytes that each rank's link carries, over time: nccl-tests' "busbw", which can be compared
/// with a link's rating for any operation and number of ranks. 0 for one rank. Source: nccl-tests
/// doc/PERFORMANCE.md: algbw times 2(n−1)/n for all_reduce, (n−1)/n for all_gather, reduce_scatter and
/// all_to_all, 1 for broadcast, reduce and send/receive.
[[nodiscard]] BytesPerSecond bus_bandwidth(Operation operation, Bytes bytes, Seconds time,
                                           std::int64_t ranks);

}  // namespace zplan
