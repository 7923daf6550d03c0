#pragma once
// Which ranks do a collective together: all of them, those of a tensor-parallel split, or those of the
// data-parallel one, as training lays them out: neighbouring ranks share a model's tensors.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/names.h"

namespace zplan::bench {

enum class GroupKind { world, tensor, data };

/// Describes groups that every rank is in one of; all of them run at once.
///   world   all ranks
///   tensor  `size` neighbours
///   data    every `tensor`-th rank; of those, where `size` is less than all, every `stride`-th of a block
struct Groups {
  GroupKind kind{GroupKind::world};
  std::int64_t size{1};
  std::int64_t stride{1};  ///< between neighbours, in ranks of the whole data-parallel group
  std::int64_t tensor{1};  ///< how many ranks share a model's tensors
  bool operator==(const Groups&) const = default;
};

/// The ranks of the group that `rank` of `ranks` is in, ascending. Throws InputError naming `place` where the
/// ranks cannot be split so.
[[nodiscard]] std::vector<int> members(const Groups& groups, std::int64_t ranks, std::int64_t rank,
                                       std::string_view place);
/// How many such groups there are at once.
[[nodiscard]] std::int64_t at_once(const Groups& groups, std::int64_t ranks);
/// "world of 4", "tensor groups of 2", "data groups of 2, stride 2"
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
