#include "planner/question/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "models/base/error.h"
#include "models/base/format.h"

namespace zplan {

namespace {

constexpr std::int64_t kLongest = 16'777'216, kMostSamples = 1'000'000'000'000;

SampleLengths sorted(const std::map<std::int64_t, std::int64_t>& counts) {
  SampleLengths lengths;
  for (const auto& [length, samples] : counts) lengths.counts.push_back({length, samples});
  return lengths;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most)
    return std::nullopt;
  return number;
}

LengthCount parse_line(const std::string& place, std::string_view line) {
  const std::size_t space = line.find_first_of(" \t,;");
  const std::string_view first = line.substr(0, space);
  const std::string_view rest = space == std::string_view::npos ? "1" : trimmed(line.substr(space + 1));
  const auto length = whole_number(first, kLongest);
  const auto samples = whole_number(rest, kMostSamples);
  if (!length || !samples)
    throw InputError(place, in_quotes(line),
                     fmt::format("accepted: a length from 1 to {}, and how many samples have it", kLongest));
  return {*length, *samples};
}

/// The inverse of the standard normal distribution by bisection of the error function.
double normal_quantile(double share) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return low;
}

/// The mean of the longest of `samples` drawn at random.
double mean_of_longest(const SampleLengths& lengths, std::int64_t samples) {
  const auto all = static_cast<double>(lengths.samples());
  double mean = 0, below = 0;
  std::int64_t seen = 0;
  for (const LengthCount& each : lengths.counts) {
    seen += each.samples;
    const double up_to = std::pow(static_cast<double>(seen) / all, static_cast<double>(samples));
    mean += static_cast<double>(each.length) * (up_to - below);
    below = up_to;
  }
  return mean;
}

/// Returns the mean of the longest sample of each batch in a stretch of fifty: evenly spread quantiles.
double mean_of_grouped(const SampleLengths& lengths, std::int64_t samples) {
  constexpr int kBatches = 50;
  double sum = 0;
  for (int i = 1; i <= kBatches; ++i) {
    const double drawn = static_cast<double>(kBatches) * static_cast<double>(samples);
    sum += static_cast<double>(
        lengths.quantile(static_cast<double>(i) * static_cast<double>(samples) / (drawn + 1)));
  }
  return sum / kBatches;
}

}  // namespace

std::int64_t SampleLengths::samples() const {
  std::int64_t sum = 0;
  for (const LengthCount& each : counts) sum += each.samples;
  return sum;
}

double SampleLengths::mean() const {
  double sum = 0;
  for (const LengthCount& each : counts)
    sum += static_cast<double>(each.length) * static_cast<double>(each.samples);
  return sum / static_cast<double>(samples());
}

std::int64_t SampleLengths::quantile(double share) const {
  const double wanted = share * static_cast<double>(samples());
  double seen = 0;
  for (const LengthCount& each : counts) {
    seen += static_cast<double>(each.samples);
    if (seen >= wanted) return each.length;
  }
  return longest();
}

SampleLengths SampleLengths::cut(std::int64_t limit) const {
  std::map<std::int64_t, std::int64_t> kept;
  for (const LengthCount& each : counts) kept[std::min(each.length, limit)] += each.samples;
  return sorted(kept);
}

SampleLengths parse_lengths(std::string_view file, std::string_view text) {
  std::map<std::int64_t, std::int64_t> counts;
  std::int64_t line = 0, samples = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view content = text.substr(at, end - at);
    at = end + 1, ++line;
    content = trimmed(content.substr(0, content.find('#')));
    if (content.empty()) continue;
    const std::string place = fmt::format("{}:{}", file, line);
    const LengthCount found = parse_line(place, content);
    counts[found.length] += found.samples;
    samples += found.samples;
    if (samples > kMostSamples)
      throw InputError(place, fmt::format("{} samples so far", samples),
                       fmt::format("accepted: up to {}", kMostSamples));
  }
  if (counts.empty())
    throw InputError(std::string(file), "no lengths",
                     "accepted: a length in tokens a line, or a length and how many samples have it");
  return sorted(counts);
}

SampleLengths lengths_of_moments(std::string_view place, std::string_view text) {
  constexpr std::string_view kAccepted = "accepted: a file, or mean=TOKENS,spread=TOKENS,limit=TOKENS";
  std::map<std::string_view, std::int64_t> values;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    const auto value = whole_number(part.substr(std::min(equals + 1, part.size())), kLongest);
    const bool known = name == "mean" || name == "spread" || name == "limit";
    if (!known || !value || !values.emplace(name, *value).second)
      throw InputError(std::string(place), in_quotes(part), std::string(kAccepted));
  }
  if (values.size() != 3) throw InputError(std::string(place), in_quotes(text), std::string(kAccepted));
  const auto mean = static_cast<double>(values["mean"]), spread = static_cast<double>(values["spread"]);
  const double variance = std::log1p(spread * spread / (mean * mean));
  const double middle = std::log(mean) - variance / 2;
  constexpr int kQuantiles = 1000;
  std::map<std::int64_t, std::int64_t> counts;
  for (int i = 0; i < kQuantiles; ++i) {
    const double at = std::exp(middle + std::sqrt(variance) * normal_quantile((i + 0.5) / kQuantiles));
    ++counts[std::clamp<std::int64_t>(std::llround(std::min(at, 1e9)), 1, values["limit"])];
  }
  return sorted(counts);
}

double DataLengths::padded_to(std::int64_t samples) const {
  switch (batching) {
    case Batching::padded: return mean_of_longest(lengths, samples);
    case Batching::grouped: return mean_of_grouped(lengths, samples);
    case Batching::packed: return static_cast<double>(limit);
  }
  return 0;
}

double DataLengths::useful_share(std::int64_t samples) const {
  return batching == Batching::packed ? 1 : std::min(1.0, lengths.mean() / padded_to(samples));
}

}  // namespace zplan
