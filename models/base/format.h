#pragma once
// Formats figures for people. Terminal, window and documents use only these functions, and split().

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

enum class ByteUnit { gib, gb };  ///< 1024³, or 1000³ with --units GB

/// Returns "14.96", without the unit, for columns whose heading names it. One or two decimals, by size.
[[nodiscard]] std::string format_bytes_value(Bytes size, ByteUnit unit = ByteUnit::gib);
/// Returns "14.96 GiB"; below 0.1 GiB "34.0 MiB", below 0.1 MiB "512 B" (GB, MB with ByteUnit::gb).
[[nodiscard]] std::string format_bytes(Bytes size, ByteUnit unit = ByteUnit::gib);
[[nodiscard]] std::string unit_name(ByteUnit unit);  ///< "GiB" or "GB"

/// Returns "8.03 B", "494 M", "1.10 T" for a count of parameters. group_digits() gives the exact count.
[[nodiscard]] std::string format_count(Elements count);
/// Returns "8,030,261,248".
[[nodiscard]] std::string group_digits(std::int64_t number);
/// Returns "1.52 s", "312 ms", "2.1 min".
[[nodiscard]] std::string format_seconds(Seconds time);
/// Returns "12.0 GB/s", in powers of ten, as links and memories are rated.
[[nodiscard]] std::string format_rate(BytesPerSecond rate);
/// Returns "38 %".
[[nodiscard]] std::string format_percent(double fraction);

/// Returns the parts of a list, including empty ones: one more than there are separators.
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
