#pragma once

#include <cstdint>
#include <vector>

namespace zplan {

/// Divisors of n > 0, ascending. Up to 1e8 there are at most 768.
[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t n);

}  // namespace zplan
