#pragma once

#include <cstdint>
#include <vector>

namespace zplan {

/// Returns the divisors of n > 0, ascending: at most 768 for n up to 1e8.
[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t n);

}  // namespace zplan
