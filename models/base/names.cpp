#include "models/base/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace zplan {

namespace {

std::string folded(std::string_view word) {
  std::string out;
  for (const char c : word)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Optimal string alignment distance: insertions, deletions, substitutions, swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

/// Returns the nearest word at which one letter in `letters` differs at most, and one in any word.
std::optional<std::string> nearest_within(std::string_view given, const std::vector<std::string>& words,
                                          std::size_t letters) {
  const std::string wanted = folded(given.substr(0, 100));
  if (wanted.empty()) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, wanted.size() / letters) + 1;
  for (const std::string& word : words) {
    const std::size_t distance = edit_distance(wanted, folded(word));
    if (distance < best_distance) best = word, best_distance = distance;
  }
  return best;
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

double similarity(std::string_view a, std::string_view b) {
  const std::string left = folded(a.substr(0, 100)), right = folded(b.substr(0, 100));
  const std::size_t longer = std::max(left.size(), right.size());
  if (longer == 0) return 0;
  return 1 - static_cast<double>(edit_distance(left, right)) / static_cast<double>(longer);
}

std::optional<std::string> nearest_word(std::string_view given, const std::vector<std::string>& words) {
  return nearest_within(given, words, 3);
}

std::optional<std::string> misspelt_word(std::string_view given, const std::vector<std::string>& words) {
  return nearest_within(given, words, 8);
}

std::string accepted_words(std::string_view given, const std::vector<std::string>& words) {
  const std::string list = fmt::format("accepted: {}", fmt::join(words, ", "));
  const auto near = nearest_word(given, words);
  return near ? fmt::format("did you mean {}? {}", *near, list) : list;
}

}  // namespace zplan
