#include "cli/document/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace zplan {

namespace {

struct Range {
  std::uint32_t first, last;
};

/// Blocks whose characters are two columns wide. Source: Unicode EastAsianWidth.txt, W and F, by whole
/// blocks.
constexpr std::array<Range, 8> kWide{{{0x1100, 0x115F},
                                      {0x2E80, 0xA4CF},
                                      {0xAC00, 0xD7A3},
                                      {0xF900, 0xFAFF},
                                      {0xFE30, 0xFE6F},
                                      {0xFF00, 0xFF60},
                                      {0x1F300, 0x1FAFF},
                                      {0x20000, 0x3FFFD}}};

bool is_combining(std::uint32_t point) { return point >= 0x300 && point <= 0x36F; }

bool is_wide(std::uint32_t point) {
  return std::any_of(kWide.begin(), kWide.end(),
                     [point](Range range) { return point >= range.first && point <= range.last; });
}

/// Returns the code point at `at` and moves `at` past it. Bytes that are not UTF-8 are returned as they are.
std::uint32_t next_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at++);
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
  std::uint32_t point = more == 0 ? lead : lead & (0x3FU >> static_cast<unsigned>(more));
  for (int i = 0; i < more && at < text.size() && (byte(at) & 0xC0U) == 0x80U; ++i)
    point = point << 6 | (byte(at++) & 0x3FU);
  return point;
}

/// Keeps a number and its unit on one line.
bool belongs_to_number(char before, std::string_view word) {
  constexpr std::size_t kLongestUnit = 7;
  return before >= '0' && before <= '9' && word.size() <= kLongestUnit &&
         (word.front() < '0' || word.front() > '9');
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    at = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, at - begin);
    const bool glued = !words.empty() && belongs_to_number(words.back().back(), word);
    if (glued)
      words.back() = {words.back().data(), words.back().size() + 1 + word.size()};
    else
      words.push_back(word);
  }
  return words;
}

std::string_view code_of(Tone tone) {
  switch (tone) {
    case Tone::plain: return "";
    case Tone::strong: return "\033[1m";
    case Tone::faint: return "\033[2m";
    case Tone::good: return "\033[32m";
    case Tone::bad: return "\033[31m";
  }
  return "";
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t point = next_point(text, at);
    width += is_combining(point) ? 0U : is_wide(point) ? 2U : 1U;
  }
  return width;
}

std::string paragraph(std::string_view first, std::string_view text, int width) {
  const std::size_t indent = display_width(first);
  std::string out(first);
  std::size_t column = indent;
  for (const std::string_view word : words_of(text)) {
    const bool begins = column == indent;
    if (!begins && column + 1 + display_width(word) > static_cast<std::size_t>(width)) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!begins) {
      out += ' ';
      ++column;
    }
    out += word;
    column += display_width(word);
  }
  return out + "\n";
}

std::string in_words(std::string_view name) {
  std::string words(name);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string seconds_value(Seconds time) {
  const int digits = time.value >= 99.95 ? 0 : time.value >= 9.995 ? 1 : time.value >= 0.9995 ? 2 : 3;
  return fmt::format("{:.{}f}", time.value, digits);
}

namespace {

/// True if a spreadsheet takes the text for a formula: "=1+1.json". Behind a sign stand numbers and options,
/// so that only calls count.
bool is_formula(std::string_view text) {
  if (text.empty()) return false;
  if (text.front() == '-' || text.front() == '+') return text.find_first_of("(|!=") != std::string_view::npos;
  return std::string_view("=@\t\r").find(text.front()) != std::string_view::npos;
}

}  // namespace

std::string csv_field(const std::string& given) {
  const std::string text = is_formula(given) ? "'" + given : given;
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string Style::operator()(Tone tone, std::string_view text) const {
  if (!color || tone == Tone::plain) return std::string(text);
  return fmt::format("{}{}\033[0m", code_of(tone), text);
}

}  // namespace zplan
