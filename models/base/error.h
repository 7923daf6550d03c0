#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace zplan {

/// Reports bad input: an option, a file, a value in a file. The only exception that the engine throws, and
/// `main` alone catches it. A plan that does not fit or is not legal is a value, not an exception.
///
/// what() is one line of printable text: "<place>: <found>; <accepted>".
class InputError : public std::runtime_error {
 public:
  /// place: the option ("--gpus"), or the file and JSON pointer ("config.json#/hidden_size");
  /// found: the given value and why it is wrong; accepted: what would be right, may be empty.
  InputError(std::string place, std::string found, std::string accepted);

  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] const std::string& found() const { return found_; }
  [[nodiscard]] const std::string& accepted() const { return accepted_; }

 private:
  std::string place_, found_, accepted_;
};

/// Returns `text` as a terminal may show it: control characters (C0, DEL, C1) as \x1b, characters that change
/// the direction of text as \u202e. Line breaks stay where `breaks_lines`.
[[nodiscard]] std::string printable(std::string_view text, bool breaks_lines = false);

/// Returns `text` in double quotes for a line of a message: control characters escaped, cut after `limit`
/// bytes (never inside a UTF-8 sequence).
[[nodiscard]] std::string in_quotes(std::string_view text, std::size_t limit = 60);

}  // namespace zplan
