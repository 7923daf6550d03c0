#include "models/base/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace zplan {

namespace {

struct Scale {
  double factor;
  std::string_view suffix;
};

/// The largest scale at which the figure is at least `least`; the last one otherwise.
template <std::size_t N>
Scale scale_for(double value, const std::array<Scale, N>& scales, double least) {
  for (const Scale& scale : scales)
    if (std::abs(value) >= least * scale.factor) return scale;
  return scales.back();
}

/// Three significant digits, never an exponent.
std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

std::string unit_name(ByteUnit unit) { return unit == ByteUnit::gib ? "GiB" : "GB"; }

std::string format_bytes_value(Bytes size, ByteUnit unit) {
  const double value =
      static_cast<double>(size.value) / (unit == ByteUnit::gib ? static_cast<double>(kGiB.value) : 1e9);
  const double shown = std::abs(value);
  if (shown >= 999.5) return fmt::format("{:.0f}", value);
  return shown >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

std::string format_bytes(Bytes size, ByteUnit unit) {
  const auto value = static_cast<double>(size.value);
  const double base = unit == ByteUnit::gib ? 1024.0 : 1000.0;
  if (std::abs(value) >= 0.1 * base * base * base)
    return format_bytes_value(size, unit) + " " + unit_name(unit);
  if (std::abs(value) >= 0.1 * base * base)
    return fmt::format("{} {}", three_digits(value / (base * base)), unit == ByteUnit::gib ? "MiB" : "MB");
  return fmt::format("{} B", size.value);
}

std::string format_count(Elements count) {
  static constexpr std::array<Scale, 5> kScales{
      {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}, {1, ""}}};
  const auto value = static_cast<double>(count.value);
  const Scale scale = scale_for(value, kScales, 0.9995);
  return scale.factor == 1 ? fmt::format("{}", count.value)
                           : three_digits(value / scale.factor) + std::string(scale.suffix);
}

std::string group_digits(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::int64_t first = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::int64_t>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string format_seconds(Seconds time) {
  if (time.value >= 5400) return three_digits(time.value / 3600) + " h";
  if (time.value >= 90) return three_digits(time.value / 60) + " min";
  static constexpr std::array<Scale, 3> kScales{{{1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}}};
  const Scale scale = scale_for(time.value, kScales, 0.9995);
  return three_digits(time.value / scale.factor) + std::string(scale.suffix);
}

std::string format_rate(BytesPerSecond rate) { return three_digits(rate.value / 1e9) + " GB/s"; }

std::string format_percent(double fraction) { return fmt::format("{:.0f} %", fraction * 100); }

}  // namespace zplan
