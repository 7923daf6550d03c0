#pragma once
// One table of names per enum: parsing, printing and "what is accepted" all read it.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/error.h"

namespace zplan {

/// Specialise with `static constexpr std::array<std::pair<E, std::string_view>, N> table`; the first name of
/// a value is the one that is printed, further ones are accepted when reading.
template <class E>
struct EnumNames;

template <class E>
[[nodiscard]] constexpr std::string_view to_name(E value) {
  for (const auto& [each, name] : EnumNames<E>::table)
    if (each == value) return name;
  return "?";
}

template <class E>
[[nodiscard]] constexpr std::optional<E> from_name(std::string_view name) {
  for (const auto& [each, each_name] : EnumNames<E>::table)
    if (each_name == name) return each;
  return std::nullopt;
}

template <class E>
[[nodiscard]] std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& [each, name] : EnumNames<E>::table) names.emplace_back(name);
  return names;
}

/// Returns the text with ASCII letters in lower case.
[[nodiscard]] std::string lower_case(std::string text);

/// Returns the word of `words` nearest to `given` (Damerau-Levenshtein, without case and punctuation),
/// nothing if none is near.
[[nodiscard]] std::optional<std::string> nearest_word(std::string_view given,
                                                      const std::vector<std::string>& words);

/// Returns how alike two words are, without case and punctuation: 1 for the same, 0 for nothing in common.
[[nodiscard]] double similarity(std::string_view a, std::string_view b);

/// Returns the word of `words` of which `given` is a misspelling: as nearest_word, one letter in eight wrong
/// at most. What was meant is certain enough to act on.
[[nodiscard]] std::optional<std::string> misspelt_word(std::string_view given,
                                                       const std::vector<std::string>& words);

/// Returns "accepted: a, b, c", with "did you mean a?" in front if one is near.
[[nodiscard]] std::string accepted_words(std::string_view given, const std::vector<std::string>& words);

/// Returns the E called `name`. Throws InputError, which names `place` and the accepted names, if there is
/// none.
template <class E>
[[nodiscard]] E parse_name(std::string_view place, std::string_view name) {
  if (const auto value = from_name<E>(name)) return *value;
  throw InputError(std::string(place), in_quotes(name), accepted_words(name, all_names<E>()));
}

}  // namespace zplan
