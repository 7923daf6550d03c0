#pragma once
// One child process that does not outlive its parent.

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zplan::bench {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct ChildOptions {
  std::vector<std::string> command;  ///< program, by path or from PATH, and its arguments
  Settings environment{};            ///< on top of this process's own
  pid_t group{};                     ///< process group to be in; 0: one of its own
  int death_signal{9};  ///< that it gets when the thread that starts it ends, however that happens
  int kept_fd{-1};      ///< descriptor that it inherits; -1: none but output and errors
};

/// Starts it, with nothing on its input, no signal blocked and the usual meaning of each. Throws InputError
/// naming the program where there is none, BenchError where the system gives no process.
[[nodiscard]] pid_t start_child(const ChildOptions& options);

/// "was killed by signal 9 (Killed)", "ended with exit status 2", of waitpid(2)'s status.
[[nodiscard]] std::string describe_status(int status);
/// As a shell has it: the exit status, or 128 + the signal.
[[nodiscard]] int exit_status_of(int status);

/// "signal 9 (Killed)".
[[nodiscard]] std::string describe_signal(int signal);

}  // namespace zplan::bench
