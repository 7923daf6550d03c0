#include "cli/options/command_line.h"

#include <algorithm>

#include "cli/document/text.h"
#include "cli/options/options.h"
#include "models/base/shell.h"

namespace zplan {

namespace {

bool takes_value(std::string_view name) {
  const OptionSpec* option = find_option(name);
  return option != nullptr && !option->value.empty();
}

GivenOption option_at(const std::vector<std::string>& arguments, std::size_t i) {
  const std::string_view word = arguments[i];
  if (const std::size_t equals = word.find('='); equals != std::string_view::npos)
    return {word.substr(0, equals), word.substr(equals + 1), i};
  if (!takes_value(word)) return {word, kFlagGiven, i};
  if (i + 1 == arguments.size()) return {word, {}, i};
  return {word, arguments[i + 1], i, 2};
}

}  // namespace

std::vector<GivenOption> given_options(const std::vector<std::string>& arguments) {
  std::vector<GivenOption> given;
  for (std::size_t i = 0; i < arguments.size(); i += given.back().words)
    given.push_back(option_at(arguments, i));
  return given;
}

std::optional<std::string> given_value(const std::vector<std::string>& arguments, std::string_view option) {
  std::optional<std::string> value;
  for (const GivenOption& each : given_options(arguments))
    if (each.name == option) value = each.value;
  return value;
}

std::vector<std::string> with_options(const std::vector<std::string>& arguments,
                                      const OptionChanges& changes) {
  std::vector<std::string> kept;
  for (const GivenOption& each : given_options(arguments)) {
    const bool stays =
        std::ranges::none_of(changes, [&each](const auto& change) { return change.first == each.name; });
    for (std::size_t i = 0; stays && i < each.words; ++i) kept.push_back(arguments[each.first + i]);
  }
  for (const auto& [option, value] : changes)
    if (value == kFlagGiven)
      kept.push_back(option);
    else if (!value.empty())
      kept.insert(kept.end(), {option, value});
  return kept;
}

std::string command_line(const std::vector<std::string>& arguments) {
  std::string line = "zplan";
  for (const std::string& each : arguments) line += " " + shell_quote(each);
  return line;
}

std::string plan_command_line(const std::vector<std::string>& arguments, const OptionChanges& changes) {
  std::vector<std::string> words = with_options(arguments, changes);
  const auto is_command = [](const std::string& word) {
    return word == to_name(Command::search) || word == to_name(Command::fit);
  };
  if (const auto at = std::ranges::find_if(words, is_command); at != words.end()) words.erase(at);
  return command_line(words);
}

}  // namespace zplan
