#include "harness/group.h"

#include <fmt/format.h>

#include "models/base/error.h"

namespace zplan::bench {

std::vector<int> members(const Groups& groups, std::int64_t ranks, std::int64_t rank,
                         std::string_view place) {
  const std::int64_t tensor = groups.kind == GroupKind::world ? 1 : groups.tensor;
  if (tensor < 1 || ranks % tensor != 0)
    throw InputError(std::string(place), fmt::format("tensor groups of {} among {} ranks", tensor, ranks),
                     "accepted: a divisor of the number of ranks");
  const std::int64_t data = ranks / tensor, block = groups.size * groups.stride;
  const std::int64_t whole = groups.kind == GroupKind::tensor ? tensor : data;
  if (groups.size < 1 || groups.stride < 1 || whole % block != 0 ||
      (groups.kind == GroupKind::tensor && groups.size != tensor) ||
      (groups.kind == GroupKind::world && groups.size != ranks))
    throw InputError(std::string(place), fmt::format("{} among {} ranks", name_of(groups), ranks),
                     fmt::format("accepted: groups that share out all {} of them", whole));
  std::vector<int> found;
  if (groups.kind == GroupKind::tensor) {
    for (std::int64_t i = 0; i < tensor; ++i) found.push_back(static_cast<int>(rank / tensor * tensor + i));
    return found;
  }
  const std::int64_t at = rank / tensor;
  const std::int64_t first = at / block * block + at % groups.stride;
  for (std::int64_t i = 0; i < groups.size; ++i)
    found.push_back(static_cast<int>((first + i * groups.stride) * tensor + rank % tensor));
  return found;
}

std::int64_t at_once(const Groups& groups, std::int64_t ranks) { return ranks / groups.size; }

std::string name_of(const Groups& groups) {
  if (groups.kind == GroupKind::world) return fmt::format("world of {}", groups.size);
  const std::string name = fmt::format("{} groups of {}", to_name(groups.kind), groups.size);
  return groups.stride == 1 ? name : fmt::format("{}, stride {}", name, groups.stride);
}

}  // namespace zplan::bench
