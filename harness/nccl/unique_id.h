#pragma once
// NCCL's unique ids as text that ranks tell each other, and who tells whom.

#include <string>
#include <vector>

#include "harness/nccl/library.h"

namespace zplan::bench {

/// A new id, in hexadecimal digits. Throws BenchError, which begins with `who`.
[[nodiscard]] std::string new_unique_id(const Nccl& nccl, const std::string& who);
/// The id that new_unique_id() wrote. Throws BenchError for anything else.
[[nodiscard]] ncclUniqueId unique_id_in(const std::string& text);

/// Where a rank of the world stands among those of its colour.
struct Part {
  int rank{}, size{};
  int first{};  ///< rank of the world of the part's rank 0
  bool operator==(const Part&) const = default;
};
/// `all`: "<colour> <key>" by rank of the world. Order is by key, then by rank of the world.
[[nodiscard]] Part part_of(const std::vector<std::string>& all, int rank);

}  // namespace zplan::bench
