#pragma once
// The one formatter for people: terminal, window and documents print figures with these and nothing else.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

enum class ByteUnit { gib, gb };  ///< 1024³, or 1000³ with --units GB

/// "14.96" in the unit, without it (for columns whose heading names it). One to two decimals, by size.
[[nodiscard]] std::string format_bytes_value(Bytes size, ByteUnit unit = ByteUnit::gib);
/// "14.96 GiB"; below 0.1 GiB "34.0 MiB", below 0.1 MiB "512 B" (GB, MB with ByteUnit::gb).
[[nodiscard]] std::string format_bytes(Bytes size, ByteUnit unit = ByteUnit::gib);
[[nodiscard]] std::string unit_name(ByteUnit unit);  ///< "GiB" or "GB"

/// "8.03 B", "494 M", "1.10 T": counts of parameters as people say them. `exact` appends nothing: see
/// group_digits.
[[nodiscard]] std::string format_count(Elements count);
/// "8,030,261,248"
[[nodiscard]] std::string group_digits(std::int64_t number);
/// "1.52 s", "312 ms", "2.1 min"
[[nodiscard]] std::string format_seconds(Seconds time);
/// "12.0 GB/s": links and memories are rated in powers of ten.
[[nodiscard]] std::string format_rate(BytesPerSecond rate);
/// "38 %"
[[nodiscard]] std::string format_percent(double fraction);

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
