#include "cli/base/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

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

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Decimal digits with at most one point, as a whole number of 10^-`fraction`.
struct Decimal {
  std::int64_t digits{};
  int fraction{};
};

/// Takes the decimal that `text` begins with off it; nothing where there is none, or one of too many digits.
std::optional<Decimal> take_decimal(std::string_view& text) {
  constexpr std::int64_t kMost = 100'000'000'000'000'000;
  Decimal read;
  bool point = false, any = false;
  for (; !text.empty() && (is_digit(text.front()) || (text.front() == '.' && !point && any));
       text.remove_prefix(1)) {
    if (text.front() == '.') {
      point = true;
      continue;
    }
    if (read.digits > kMost) return std::nullopt;
    read.digits = read.digits * 10 + (text.front() - '0');
    read.fraction += point ? 1 : 0;
    any = true;
  }
  return any ? std::optional(read) : std::nullopt;
}

/// Takes an exponent of ten ("e11") off `text`: 0 where there is none, nothing where it is malformed.
std::optional<int> take_exponent(std::string_view& text) {
  if (text.empty() || (text.front() != 'e' && text.front() != 'E')) return 0;
  text.remove_prefix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto exponent = end > 2 ? std::nullopt : whole_number<int>(text.substr(0, end));
  text.remove_prefix(end);
  return exponent;
}

/// The power of `thousand` that "k", "M", "B" or "T" stands for: 0 for no letter, nothing for another.
std::optional<int> power_of(std::string_view unit) {
  if (unit.empty()) return 0;
  if (unit.size() > 1) return std::nullopt;
  constexpr std::string_view kUnits = "kmbtKMBT";
  const std::size_t at = kUnits.find(unit.front());
  return at == std::string_view::npos ? std::nullopt : std::optional(static_cast<int>(at % 4) + 1);
}

/// `value` times `factor` to the power of `times`; nothing where it exceeds 10^18.
std::optional<std::int64_t> scaled(std::int64_t value, std::int64_t factor, int times) {
  constexpr std::int64_t kMost = 1'000'000'000'000'000'000;
  for (; times > 0 && value > 0; --times) {
    if (value > kMost / factor) return std::nullopt;
    value *= factor;
  }
  return value;
}

/// The whole number that `text` writes, exactly; nothing where it writes none.
std::optional<std::int64_t> written_count(std::string_view text, std::int64_t thousand) {
  const auto decimal = take_decimal(text);
  const auto exponent = decimal ? take_exponent(text) : std::nullopt;
  if (!exponent) return std::nullopt;
  if (text.starts_with(' ')) text.remove_prefix(1);
  const auto power = power_of(text);
  const auto grown = power ? scaled(decimal->digits, thousand, *power) : std::nullopt;
  if (!grown) return std::nullopt;
  const int zeros = *exponent - decimal->fraction;
  if (zeros >= 0) return scaled(*grown, 10, zeros);
  const auto parts = scaled(1, 10, -zeros);
  return parts && *grown % *parts == 0 ? std::optional(*grown / *parts) : std::nullopt;
}

[[noreturn]] void reject(std::string_view option, std::string_view text, std::string accepted) {
  throw InputError(std::string(option), in_quotes(text), "accepted: " + std::move(accepted));
}

}  // namespace

std::optional<std::int64_t> to_whole_number(std::string_view text) {
  return whole_number<std::int64_t>(text);
}

OptionChanges typed_options(std::string_view typed) {
  std::istringstream words{std::string(typed)};
  OptionChanges options;
  for (std::string word; words >> word;) {
    if (word.starts_with("--"))
      options.emplace_back(word, kFlagGiven);
    else
      options.back().second = word;
  }
  return options;
}

std::string options_text(const OptionChanges& options) {
  std::string text;
  for (const auto& [option, value] : options)
    text += (text.empty() ? "" : " ") + option + (value == kFlagGiven ? "" : " " + value);
  return text;
}

std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t low,
                           std::int64_t high) {
  const auto value = whole_number<std::int64_t>(text);
  if (!value || *value < low || *value > high)
    reject(option, text, fmt::format("a whole number from {} to {}", low, high));
  return *value;
}

std::int64_t parse_count(std::string_view option, std::string_view text, std::int64_t low, std::int64_t high,
                         std::int64_t thousand, std::string_view example) {
  const auto value = written_count(text, thousand);
  if (!value || *value < low || *value > high)
    reject(option, text, fmt::format("a whole number from {} to {}, such as {}", low, high, example));
  return *value;
}

double parse_price(std::string_view option, std::string_view text, double most) {
  std::string_view number = text;
  if (number.starts_with('$')) number.remove_prefix(1);
  for (const std::string_view per : {"/hour", "/hr", "/h"})
    if (number.ends_with(per)) {
      number.remove_suffix(per.size());
      break;
    }
  const auto value = whole_number<double>(number);
  if (!value || !std::isfinite(*value) || *value < 0 || *value > most)
    reject(option, text, fmt::format("a number from 0 to {:g}, such as 2.2, $2.2 or 2.2/h", most));
  return *value;
}

Seconds parse_duration(std::string_view option, std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 9> kUnits{{{"hours", 3600},
                                                                              {"hour", 3600},
                                                                              {"h", 3600},
                                                                              {"days", 86'400},
                                                                              {"day", 86'400},
                                                                              {"d", 86'400},
                                                                              {"weeks", 604'800},
                                                                              {"week", 604'800},
                                                                              {"w", 604'800}}};
  constexpr double kMost = 100 * 365.0 * 86'400;
  for (const auto& [unit, seconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    std::string_view number = text.substr(0, text.size() - unit.size());
    while (number.ends_with(' ')) number.remove_suffix(1);
    const auto value = whole_number<double>(number);
    if (value && std::isfinite(*value) && *value > 0 && *value * seconds <= kMost)
      return Seconds(*value * seconds);
  }
  reject(option, text, "hours, days or weeks, such as 36h, 14d or 2w");
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
  const Bytes unit = digits.ends_with("MiB") ? kMiB : kGiB;
  if (digits.ends_with("GiB") || digits.ends_with("MiB")) digits.remove_suffix(3);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  const auto value = whole_number<double>(digits);
  const double gib = value ? *value * ratio(unit, kGiB) : 0;
  if (!std::isfinite(gib) || gib <= 0 || gib > kMost)
    reject(option, text, "a number of GiB above 0, such as 44, 44.5, 44GiB or 45056MiB");
  return Bytes(static_cast<std::int64_t>(std::llround(*value * static_cast<double>(unit.value))));
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
  std::set<std::string_view> seen;  // files of scenarios may list as many as they have room for
  for (const std::string& word : words)
    if (!seen.insert(word).second)
      throw InputError(std::string(option), fmt::format("{} is given twice", in_quotes(word)),
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
