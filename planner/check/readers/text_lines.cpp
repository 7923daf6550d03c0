#include "planner/check/readers/text_lines.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

namespace zplan::check {

namespace {

std::optional<double> parsed(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = line.find_first_not_of(kBlanks, at)) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

double number_at(std::string_view word, double low, double high, const std::string& source,
                 std::size_t line) {
  const std::optional<double> value = parsed(word);
  if (!value || *value < low || *value > high)
    fail_at(source, line, word, fmt::format("a number from {} to {}", low, high));
  return *value;
}

bool is_number(std::string_view word) { return parsed(word).has_value(); }

void fail_at(const std::string& source, std::size_t line, std::string_view found,
             const std::string& accepted) {
  throw InputError(fmt::format("{} line {}", source, line), in_quotes(found), "accepted: " + accepted);
}

}  // namespace zplan::check
