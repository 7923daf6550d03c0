#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace zplan {

/// The parts of a list, empty ones too: one more than there are separators.
[[nodiscard]] inline std::vector<std::string_view> split(std::string_view list, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(separator, begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace zplan
