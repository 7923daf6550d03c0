#include "models/base/error.h"

#include <fmt/format.h>

namespace zplan {

namespace {
std::string one_line(const std::string& place, const std::string& found, const std::string& accepted) {
  return accepted.empty() ? fmt::format("{}: {}", place, found)
                          : fmt::format("{}: {}; {}", place, found, accepted);
}

/// Returns the text without its middle where it is longer than a line of a message should be: a name can have
/// megabytes.
std::string cut(std::string text) {
  constexpr std::size_t kLongest = 2000, kKept = 900;
  if (text.size() <= kLongest) return text;
  const auto is_inside = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  std::size_t begin = kKept, end = text.size() - kKept;
  while (is_inside(begin)) --begin;
  while (is_inside(end)) ++end;
  return text.replace(begin, end - begin, "…");
}

bool is_of_direction(char32_t point) {
  return point == 0x61C || point == 0x200E || point == 0x200F || (point >= 0x202A && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069);
}

/// Returns the character of two or three bytes that begins `text`, or 0. Controls and marks of direction have
/// no more.
char32_t begin_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  if (text.size() > 1 && (byte(0) & 0xE0U) == 0xC0U) return (byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU);
  if (text.size() > 2 && (byte(0) & 0xF0U) == 0xE0U)
    return (byte(0) & 0xFU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
  return 0;
}
}  // namespace

std::string printable(std::string_view text, bool breaks_lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const char32_t point = byte < 0x80 ? 0 : begin_of(text.substr(i, 3));
    if ((byte < 0x20 && !(breaks_lines && byte == '\n')) || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (point >= 0x80 && point < 0xA0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(point)), i += 1;
    } else if (is_of_direction(point)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(point)), i += point < 0x800 ? 1 : 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

InputError::InputError(std::string place, std::string found, std::string accepted)
    : std::runtime_error(one_line(cut(printable(place)), cut(printable(found)), printable(accepted))),
      place_(std::move(place)),
      found_(std::move(found)),
      accepted_(std::move(accepted)) {}

std::string in_quotes(std::string_view text, std::size_t limit) {
  const bool cut = text.size() > limit;
  if (cut) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) --limit;
    text = text.substr(0, limit);
  }
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return "\"" + printable(quoted) + (cut ? "…\"" : "\"");
}

}  // namespace zplan
