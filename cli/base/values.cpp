#include "cli/base/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "models/base/format.h"

namespace zplan {

namespace {

/// The whole of `text` as a number, or nothing.
template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void reject(std::string_view option, std::string_view text, std::string accepted) {
  throw InputError(std::string(option), in_quotes(text), "accepted: " + std::move(accepted));
}

}  // namespace

std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t low,
                           std::int64_t high) {
  const auto value = whole_number<std::int64_t>(text);
  if (!value || *value < low || *value > high)
    reject(option, text, fmt::format("a whole number from {} to {}", low, high));
  return *value;
}

std::optional<std::int64_t> parse_count_or(std::string_view option, std::string_view word,
                                           std::string_view text, std::int64_t most) {
  if (text == word) return std::nullopt;
  const auto value = whole_number<std::int64_t>(text);
  if (!value || *value < 1 || *value > most)
    reject(option, text, fmt::format("a whole number from 1 to {}, or {}", most, word));
  return value;
}

double parse_number(std::string_view option, std::string_view text, double low, double high) {
  const auto value = whole_number<double>(text);
  if (!value || !std::isfinite(*value) || *value < low || *value > high)
    reject(option, text, fmt::format("a number from {:g} to {:g}", low, high));
  return *value;
}

Bytes parse_gib(std::string_view option, std::string_view text) {
  constexpr double kMost = 1e9;  // GiB: keeps the bytes within 64 bits
  std::string_view digits = text;
  if (digits.ends_with("GiB")) digits.remove_suffix(3);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  const auto value = whole_number<double>(digits);
  if (!value || !std::isfinite(*value) || *value <= 0 || *value > kMost)
    reject(option, text, "a number of GiB above 0, such as 44, 44.5 or 44GiB");
  return Bytes(static_cast<std::int64_t>(std::llround(*value * static_cast<double>(kGiB.value))));
}

std::vector<std::string> parse_values(std::string_view option, std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view each : split(text, ',')) {
    if (each.empty()) reject(option, text, "values separated by commas, none of them empty");
    words.emplace_back(each);
  }
  return words;
}

std::vector<std::string> parse_list(std::string_view option, std::string_view text) {
  std::vector<std::string> words = parse_values(option, text);
  for (auto word = words.begin(); word != words.end(); ++word)
    if (std::find(words.begin(), word, *word) != word)
      throw InputError(std::string(option), fmt::format("{} is given twice", in_quotes(*word)),
                       "accepted: once");
  return words;
}

std::vector<std::int64_t> parse_integers(std::string_view option, std::string_view text, std::int64_t low,
                                         std::int64_t high) {
  std::vector<std::int64_t> values;
  for (const std::string& word : parse_list(option, text))
    values.push_back(parse_integer(option, word, low, high));
  return values;
}

}  // namespace zplan
