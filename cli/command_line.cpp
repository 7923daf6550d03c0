#include "cli/command_line.h"

#include <algorithm>

#include "cli/options.h"
#include "cli/text.h"

namespace zplan {

namespace {

bool takes_value(const std::string& option) {
  const auto& table = option_table();
  return std::any_of(table.begin(), table.end(), [&option](const OptionSpec& spec) {
    return spec.name == option && !spec.value.empty();
  });
}

}  // namespace

std::vector<std::string> with_options(const std::vector<std::string>& arguments,
                                      const std::vector<std::pair<std::string, std::string>>& changes) {
  const auto changed = [&changes](const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    return std::any_of(changes.begin(), changes.end(),
                       [&name](const auto& change) { return change.first == name; });
  };
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool stays = !changed(arguments[i]);
    if (stays) kept.push_back(arguments[i]);
    // The value behind an option stays or goes with it, even one that is called like another option.
    if (!takes_value(arguments[i]) || ++i == arguments.size()) continue;
    if (stays) kept.push_back(arguments[i]);
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

}  // namespace zplan
