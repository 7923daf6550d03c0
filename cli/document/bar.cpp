#include "cli/document/bar.h"

#include <algorithm>
#include <cmath>

namespace zplan {

const BarGlyphs& bar_glyphs(bool unicode) {
  static constexpr BarGlyphs kBlocks{{"\u2588", "\u2593", "\u2592", "\u2591", "·"}, " ", "\u2595", "\u258f"};
  static constexpr BarGlyphs kAscii{{"#", "=", "+", "-", "."}, " ", "|", "|"};
  return unicode ? kBlocks : kAscii;
}

std::string bar(const std::array<double, kBarParts>& parts, double limit, std::size_t width,
                const BarGlyphs& glyphs) {
  std::string drawn(glyphs.begin);
  double sum = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < kBarParts; ++i) {
    sum += std::max(0.0, parts[i]);
    const double share = limit > 0 ? std::min(1.0, sum / limit) : 0.0;
    const auto end = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
    for (; at < end; ++at) drawn += glyphs.parts[i];
  }
  for (; at < width; ++at) drawn += glyphs.free;
  return drawn += glyphs.end;
}

}  // namespace zplan
