#include "models/base/pattern.h"

#include <cstddef>
#include <regex>

namespace zplan {

struct Pattern::Compiled {
  std::regex expression;
};

namespace {

using Results = std::match_results<std::string_view::const_iterator>;

/// Returns the parts of `text` that its match is made of.
Pattern::Match parts_of(const Results& results, std::string_view text) {
  Pattern::Match parts;
  parts.reserve(results.size());
  for (const auto& each : results) {
    const auto place = static_cast<std::size_t>(each.first - text.begin());
    parts.push_back(each.matched ? text.substr(place, static_cast<std::size_t>(each.length()))
                                 : std::string_view());
  }
  return parts;
}

}  // namespace

Pattern::Pattern(std::string_view expression, Letters letters)
    : compiled_(std::make_shared<const Compiled>(
          Compiled{std::regex(expression.begin(), expression.end(),
                              letters == Letters::of_any_case ? std::regex::ECMAScript | std::regex::icase
                                                              : std::regex::ECMAScript)})) {}

std::optional<Pattern::Match> Pattern::find(std::string_view text) const {
  Results results;
  if (!std::regex_search(text.begin(), text.end(), results, compiled_->expression)) return std::nullopt;
  return parts_of(results, text);
}

std::optional<Pattern::Match> Pattern::match(std::string_view text) const {
  Results results;
  if (!std::regex_match(text.begin(), text.end(), results, compiled_->expression)) return std::nullopt;
  return parts_of(results, text);
}

}  // namespace zplan
