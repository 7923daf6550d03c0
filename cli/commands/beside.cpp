#include "cli/commands/beside.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "models/base/error.h"

namespace zplan {

namespace fs = std::filesystem;

std::string program_beside(const std::string& name, const std::string& command, const std::string& needed) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const std::string path = error ? name : (self.parent_path() / name).string();
  if (!fs::exists(path)) throw InputError(command, path + " is not there", needed);
  return path;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> values;
  for (std::string& each : words) values.push_back(each.data());
  values.push_back(nullptr);
  return values;
}

void become(std::vector<std::string> words, const std::string& command) {
  execv(words.front().c_str(), pointers(words).data());
  throw InputError(command, words.front() + ": " + std::strerror(errno), "");
}

}  // namespace zplan
