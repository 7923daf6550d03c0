#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "cli/commands/beside.h"
#include "cli/commands/commands.h"
#include "cli/run.h"
#include "models/base/error.h"
#include "models/base/files.h"

namespace zplan {

namespace {

using Words = std::vector<std::string>;

/// The value of "--name VALUE" or "--name=VALUE", taken out of the words; empty where it is not there.
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

/// Ctrl-C is for the one that measures, which keeps what it has: this one waits for it.
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

}  // namespace

bool is_bench(const Words& arguments) { return !arguments.empty() && arguments.front() == "bench"; }

int bench_command(const Words& arguments, const Environment& environment, std::ostream& out,
                  std::ostream& err) {
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
  return run({"hardware", "import", result, "--output", profile}, environment, out, err);
}

}  // namespace zplan
