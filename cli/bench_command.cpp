#include "cli/bench_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "models/base/error.h"

namespace zplan {

namespace {

/// Beside this program, as both are built and installed.
std::string program_that_measures() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string("zplan-bench") : (self.parent_path() / "zplan-bench").string();
}

}  // namespace

bool is_bench(const std::vector<std::string>& arguments) {
  return !arguments.empty() && arguments.front() == "bench";
}

int bench_command(const std::vector<std::string>& arguments, std::ostream& err) {
  std::vector<std::string> words{program_that_measures()};
  words.insert(words.end(), arguments.begin() + 1, arguments.end());
  if (!std::filesystem::exists(words.front()))
    throw InputError("bench", fmt::format("{} is not there", words.front()),
                     "needed: a build with -DZPLAN_BUILD_HARNESS=ON (docs/building.md)");
  std::vector<char*> values;
  for (std::string& each : words) values.push_back(each.data());
  values.push_back(nullptr);
  execv(values.front(), values.data());
  err << fmt::format("zplan: bench: {}: {}\n", words.front(), std::strerror(errno));
  return 2;
}

}  // namespace zplan
