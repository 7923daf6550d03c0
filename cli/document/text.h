#pragma once
// Lines for people: width, wrapping, colour.

#include <string>
#include <string_view>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// Columns that UTF-8 text takes on a terminal: wide East Asian characters two, combining marks none.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// `text` wrapped at blanks into lines of at most `width` columns; the first begins with `first`, the others
/// with as many blanks. A word longer than a line is not broken.
[[nodiscard]] std::string paragraph(std::string_view first, std::string_view text, int width);

/// "parameters" for "framework_overhead"-like names: underscores as blanks.
[[nodiscard]] std::string in_words(std::string_view name);

/// A time in seconds to three digits, as tables show it: "0.081", "2.35", "17.4", "119".
[[nodiscard]] std::string seconds_value(Seconds time);

/// A field of CSV, in quotes where it needs them (RFC 4180).
[[nodiscard]] std::string csv_field(const std::string& text);

enum class Tone { plain, strong, faint, good, bad };

/// The width of text, and whether tones become colours.
struct Style {
  int width{100};
  bool color{};
  [[nodiscard]] std::string operator()(Tone tone, std::string_view text) const;
};

}  // namespace zplan
