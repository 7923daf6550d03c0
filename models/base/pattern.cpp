#include "models/base/pattern.h"

#include <regex>

namespace zplan {

struct Pattern::Compiled {
  std::regex expression;
};

namespace {

using Results = std::match_results<std::string_view::const_iterator>;

Pattern::Match parts_of(const Results& results) {
  Pattern::Match parts;
  parts.reserve(results.size());
  for (const auto& each : results)
    parts.push_back(each.matched ? std::string_view(each.first, each.second) : std::string_view());
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
  return parts_of(results);
}

std::optional<Pattern::Match> Pattern::match(std::string_view text) const {
  Results results;
  if (!std::regex_match(text.begin(), text.end(), results, compiled_->expression)) return std::nullopt;
  return parts_of(results);
}

}  // namespace zplan
