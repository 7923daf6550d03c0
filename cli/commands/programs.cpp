// Commands that are programs of their own, installed beside this one: zplan-bench and zplan-gui.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "models/base/error.h"
#include "models/base/files.h"

namespace zplan {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// Returns the path of `name` in this program's folder, and in no other. Where it is not there, or the folder
/// is not known (without /proc): InputError that names the command which wants it and what is needed.
std::string program_beside(const std::string& name, const std::string& command, const std::string& needed) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) throw InputError(command, "the folder of this program is not known: " + error.message(), needed);
  const std::string path = (self.parent_path() / name).string();
  if (!fs::exists(path)) throw InputError(command, path + " is not there", needed);
  return path;
}

/// Returns what exec and spawn take; `words` must outlive it.
std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> values;
  for (std::string& each : words) values.push_back(each.data());
  values.push_back(nullptr);
  return values;
}

/// Becomes the program that the first word names; throws InputError where that cannot be.
[[noreturn]] void become(std::vector<std::string> words, const std::string& command) {
  execv(words.front().c_str(), pointers(words).data());
  throw InputError(command, words.front() + ": " + std::strerror(errno), "");
}

/// Takes "--name VALUE" or "--name=VALUE" out of the words and returns the value; empty if it is not there.
std::string take_value(Words& words, const std::string& name) {
  for (auto at = words.begin(); at != words.end(); ++at) {
    const bool joined = at->starts_with(name + "=");
    if (!joined && *at != name) continue;
    if (!joined && std::next(at) == words.end()) throw InputError(name, "no value", "accepted: a file");
    const std::string value = joined ? at->substr(name.size() + 1) : *std::next(at);
    words.erase(at, at + (joined ? 1 : 2));
    if (value.empty()) throw InputError(name, "\"\"", "accepted: a file");
    return value;
  }
  return "";
}

/// Runs the program that the first word names and returns its exit status. Ctrl-C ends that program, not this
/// one.
int run_and_wait(Words words) {
  std::signal(SIGINT, SIG_IGN);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults), sigaddset(&defaults, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, words.front().c_str(), nullptr, &attributes, pointers(words).data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw InputError("bench", words.front() + ": " + std::strerror(error), "");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Becomes zplan-bench, or with --profile FILE waits for it and imports its measurements.
int bench(const Words& arguments, const Environment& environment, std::ostream& out, std::ostream& err) {
  Words words{program_beside("zplan-bench", "bench",
                             "needed: a build with -DZPLAN_BUILD_HARNESS=ON (docs/building.md)")};
  words.insert(words.end(), arguments.begin() + 1, arguments.end());
  const std::string profile = take_value(words, "--profile");
  if (profile.empty()) become(std::move(words), "bench");
  const TemporaryFile kept_nowhere;
  std::string result = take_value(words, "--output");
  if (result.empty()) result = take_value(words, "-o");
  if (result.empty()) result = kept_nowhere.path();
  words.insert(words.end(), {"--output", result, "--quiet"});
  if (const int status = run_and_wait(words); status != kFits) return status;
  const Words import{"hardware", "import", result, "--output", profile};
  return hardware_import({parse_options(import), import, environment, {}, out, err});
}

[[noreturn]] void gui(const Words& arguments) {
  Words words{program_beside(
      "zplan-gui", "gui",
      "needed: a build with Qt 6 (docs/building.md); --html FILE writes an answer as a page without it")};
  words.insert(words.end(), arguments.begin() + 1, arguments.end());
  become(std::move(words), "gui");
}

}  // namespace

bool is_program(const Words& arguments) {
  return !arguments.empty() && (arguments.front() == "bench" || arguments.front() == "gui");
}

int run_program(const Words& arguments, const Environment& environment, std::ostream& out,
                std::ostream& err) {
  if (arguments.front() == "bench") return bench(arguments, environment, out, err);
  gui(arguments);
}

}  // namespace zplan
