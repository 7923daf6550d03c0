#pragma once

#include <stdexcept>
#include <string>

namespace zplan {

/// Bad input from outside: an option, a file, a value in a file. The only exception the engine throws;
/// `main` is the only place that catches it. What does not fit or is not legal is a value, never this.
///
/// what() is one line: "<place>: <found>; <accepted>".
class InputError : public std::runtime_error {
 public:
  /// place: the option ("--gpus"), or the file and JSON pointer ("config.json#/hidden_size");
  /// found: what was given and why it will not do; accepted: what would have been (may be empty).
  InputError(std::string place, std::string found, std::string accepted);

  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] const std::string& found() const { return found_; }
  [[nodiscard]] const std::string& accepted() const { return accepted_; }

 private:
  std::string place_, found_, accepted_;
};

/// `text` fit for one line of a message: control characters escaped, cut after `limit` bytes (never inside a
/// UTF-8 sequence), in double quotes.
[[nodiscard]] std::string in_quotes(std::string_view text, std::size_t limit = 60);

}  // namespace zplan
