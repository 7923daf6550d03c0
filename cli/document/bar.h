#pragma once
// Bars of stacked parts against a limit, drawn with characters.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace zplan {

inline constexpr std::size_t kBarParts = 5;

/// The characters of a bar: one for each part, one for what is free, and the two ends.
struct BarGlyphs {
  std::array<std::string_view, kBarParts> parts;
  std::string_view free, begin, end;
};

/// Returns block characters, or characters of ASCII for a terminal that is not known to show others.
[[nodiscard]] const BarGlyphs& bar_glyphs(bool unicode);

/// Returns a bar whose `width` cells stand for `limit`. Parts are rounded at their ends, so that together
/// they fill as many cells as their sum does; what exceeds the limit is cut off. A limit of 0 gives an empty
/// bar.
[[nodiscard]] std::string bar(const std::array<double, kBarParts>& parts, double limit, std::size_t width,
                              const BarGlyphs& glyphs);

}  // namespace zplan
