#pragma once
// Functions over lists of a framework's own arguments, --megatron and --torchtitan. An argument has a name,
// the values that it accepts (none: it is a switch), `set`, which sets a value in the options, and `value`,
// which returns it where the options differ from the framework's own defaults.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/error.h"
#include "models/base/names.h"

namespace zplan {

/// Returns the whole number from `least` to `most` that `text` is; nothing where it is none.
[[nodiscard]] inline std::optional<std::int64_t> whole_argument(std::string_view text, std::int64_t least,
                                                                std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && value >= least && value <= most ? std::optional(value) : std::nullopt;
}

/// Sets the argument that `word` gives: "name", or "name=value". Throws InputError, which names `place` and
/// what is accepted.
template <class Arguments, class Options>
void set_argument(const Arguments& arguments, Options& options, std::string_view place,
                  std::string_view word) {
  using Argument = typename Arguments::value_type;
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const auto found = std::ranges::find(arguments, name, &Argument::name);
  if (found == arguments.end()) {
    std::vector<std::string> all{"none"};
    for (const Argument& each : arguments) all.emplace_back(each.name);
    throw InputError(std::string(place), in_quotes(name), accepted_words(name, all));
  }
  const bool has_value = equals != std::string_view::npos;
  const std::string_view value = has_value ? word.substr(equals + 1) : "";
  if (found->accepted.empty() && has_value)
    throw InputError(std::string(place), in_quotes(word),
                     "accepted: " + std::string(name) + " alone: it is a switch without a value");
  if (!found->set(options, value))
    throw InputError(std::string(place), in_quotes(word),
                     std::string(name) + "=VALUE, " + accepted_words(value, found->accepted));
}

/// Returns the words that set what differs from the framework's own defaults.
template <class Arguments, class Options>
[[nodiscard]] std::vector<std::string> set_words(const Arguments& arguments, const Options& options) {
  std::vector<std::string> words;
  for (const auto& each : arguments)
    if (const auto value = each.value(options))
      words.push_back(std::string(each.name) + (value->empty() ? "" : "=" + *value));
  return words;
}

/// Returns the words that complete the option: "none", switches, and arguments with each value that is one
/// word; arguments that take numbers are left out.
template <class Arguments>
[[nodiscard]] std::vector<std::string> possible_words(const Arguments& arguments) {
  std::vector<std::string> words{"none"};
  for (const auto& each : arguments) {
    if (each.accepted.empty()) words.emplace_back(each.name);
    for (const std::string& value : each.accepted)
      if (value.find(' ') == std::string::npos) words.push_back(std::string(each.name) + "=" + value);
  }
  return words;
}

}  // namespace zplan
