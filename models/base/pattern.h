#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace zplan {

/// A regular expression of ECMAScript, compiled once. <regex> costs seconds in every file that includes it,
/// so pattern.cpp alone does.
class Pattern {
 public:
  enum class Letters { as_written, of_any_case };

  /// Throws std::regex_error where `expression` is none.
  explicit Pattern(std::string_view expression, Letters letters = Letters::as_written);

  /// Match holds the part of the searched text that the whole expression matches, then the part of each
  /// group; a group that the match does not use is empty.
  using Match = std::vector<std::string_view>;

  /// Returns the first match in `text`.
  [[nodiscard]] std::optional<Match> find(std::string_view text) const;
  /// Returns the match that covers the whole of `text`.
  [[nodiscard]] std::optional<Match> match(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace zplan
