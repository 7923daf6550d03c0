#include "gui/editors/given.h"

#include <algorithm>

#include "cli/command_line.h"
#include "cli/options.h"

namespace zplan::gui {

namespace {

bool takes_value(std::string_view option) {
  return std::ranges::any_of(option_table(), [option](const OptionSpec& spec) {
    return spec.name == option && !spec.value.empty();
  });
}

}  // namespace

std::optional<std::string> given_value(const std::vector<std::string>& arguments, std::string_view option) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t equals = word.find('=');
    const std::string_view name = std::string_view(word).substr(0, equals);
    const bool follows = equals == std::string::npos && takes_value(name);
    const bool is_last = i + 1 == arguments.size();
    if (name == option) {
      if (equals != std::string::npos)
        value = word.substr(equals + 1);
      else
        value = !follows ? std::string(kFlagGiven) : is_last ? std::string() : arguments[i + 1];
    }
    if (follows) ++i;
  }
  return value;
}

}  // namespace zplan::gui
