#pragma once
// Reads logs line by line.

#include <string>
#include <string_view>
#include <vector>

#include "models/base/error.h"

namespace zplan::check {

/// Returns the lines without their ends ("\n", "\r\n").
[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text);

/// Returns the words between blanks.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view line);

/// Returns the number that is the whole word, within [low, high]. Throws InputError naming source and line
/// (from 1).
[[nodiscard]] double number_at(std::string_view word, double low, double high, const std::string& source,
                               std::size_t line);

/// True if the word is a number.
[[nodiscard]] bool is_number(std::string_view word);

/// Throws InputError "source line 12: …".
[[noreturn]] void fail_at(const std::string& source, std::size_t line, std::string_view found,
                          const std::string& accepted);

}  // namespace zplan::check
