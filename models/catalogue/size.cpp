#include <algorithm>
#include <cctype>
#include <limits>

#include "models/catalogue/catalogue.h"

namespace zplan {

namespace {

/// Decimal digits that a unit stands for: 9 for "B".
std::optional<std::size_t> zeros_of(char unit) {
  switch (std::tolower(static_cast<unsigned char>(unit))) {
    case 'k': return 3;
    case 'm': return 6;
    case 'b': return 9;
    case 't': return 12;
    default: return std::nullopt;
  }
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// A string of digits as a number; what 64 bits cannot hold becomes the largest that they can.
std::int64_t to_number(std::string_view digits) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t value = 0;
  for (const char c : digits) {
    if (value > (most - 9) / 10) return most;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

std::optional<Elements> parse_size(std::string_view text) {
  const auto zeros = text.empty() ? std::nullopt : zeros_of(text.back());
  if (!zeros) return std::nullopt;
  std::string_view number = text.substr(0, text.size() - 1);
  if (!number.empty() && number.back() == ' ') number.remove_suffix(1);

  const std::size_t point = number.find('.');
  const std::string_view whole = number.substr(0, point);
  std::string_view fraction = point == std::string_view::npos ? "0" : number.substr(point + 1);
  if (!all_digits(whole) || !all_digits(fraction)) return std::nullopt;

  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  if (fraction.size() > *zeros) return std::nullopt;  // a part of a parameter
  // Shifting the point in the digits themselves keeps 1.7B exact, which no binary fraction is.
  const std::string digits =
      std::string(whole) + std::string(fraction) + std::string(*zeros - fraction.size(), '0');
  return Elements(to_number(digits));
}

}  // namespace zplan
