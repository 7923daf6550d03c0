#include "cli/commands/beside.h"
#include "cli/commands/commands.h"

namespace zplan {

bool is_gui(const std::vector<std::string>& arguments) {
  return !arguments.empty() && arguments.front() == "gui";
}

void gui_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{
      program_beside("zplan-gui", "gui", "needed: a build with Qt 6 (docs/building.md)")};
  words.insert(words.end(), arguments.begin() + 1, arguments.end());
  become(std::move(words), "gui");
}

}  // namespace zplan
