#pragma once

#include <algorithm>
#include <cstdint>

#include "planner/question/work.h"

namespace zplan {

/// Of 0 … count − 1 the first for which `holds`, which then holds of all behind it too; `count` where it
/// holds of none. Strides that double find a stretch that holds the answer, halves narrow it: no more than
/// 2·log2(count) + 2 values are looked at, however `holds` behaves; one of them, that holds, is returned, or
/// `count`.
template <class Holds>
[[nodiscard]] std::int64_t first_that(std::int64_t count, const Holds& holds) {
  const auto asked = [&holds](std::int64_t index) {
    take_step();
    return holds(index);
  };
  std::int64_t before = -1, found = 0;
  while (found < count && !asked(found)) before = found, found = found * 2 + 1;
  found = std::min(found, std::max<std::int64_t>(count, 0));
  while (found - before > 1) {
    const std::int64_t middle = before + (found - before) / 2;
    (asked(middle) ? found : before) = middle;
  }
  return found;
}

}  // namespace zplan
