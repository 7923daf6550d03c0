#include "harness/net/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "harness/error.h"
#include "harness/net/socket.h"
#include "models/base/error.h"

extern char** environ;

namespace zplan::bench {

namespace {

/// This process's variables with `settings` in place of those of their names.
std::vector<std::string> variables_with(const Settings& settings) {
  std::vector<std::string> all;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const std::string_view name = variable.substr(0, variable.find('='));
    if (std::none_of(settings.begin(), settings.end(),
                     [name](const auto& setting) { return setting.first == name; }))
      all.emplace_back(variable);
  }
  for (const auto& [name, value] : settings) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// What the child does between fork and exec: system calls alone, since other threads' locks may be held.
struct Preparation {
  pid_t parent{}, group{};
  int death_signal{}, kept_fd{}, report_fd{};
  char** arguments{};
  char** variables{};
};

void usual_signals() {
  for (int number = 1; number < NSIG; ++number)
    if (number != SIGKILL && number != SIGSTOP) (void)std::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become(const Preparation& preparation) {
  (void)setpgid(0, preparation.group);
  (void)prctl(PR_SET_PDEATHSIG, preparation.death_signal);
  if (getppid() != preparation.parent) _exit(128 + SIGKILL);  // it was gone before the line above
  usual_signals();
  if (const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC); nothing >= 0)
    (void)dup2(nothing, STDIN_FILENO);
  if (preparation.kept_fd >= 0) (void)fcntl(preparation.kept_fd, F_SETFD, 0);
  (void)execvpe(preparation.arguments[0], preparation.arguments, preparation.variables);
  const int error = errno;
  (void)!write(preparation.report_fd, &error, sizeof error);
  _exit(127);
}

/// errno of the exec that failed; 0: it did not.
int exec_error(int fd) {
  int error = 0;
  ssize_t got = 0;
  while ((got = read(fd, &error, sizeof error)) < 0 && errno == EINTR) continue;
  return got == sizeof error ? error : 0;
}

}  // namespace

pid_t start_child(const ChildOptions& options) {
  std::vector<std::string> command = options.command, variables = variables_with(options.environment);
  const std::vector<char*> arguments = pointers(command), set = pointers(variables);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw BenchError(fmt::format("no pipe to a new process: {}", std::strerror(errno)));
  const Socket reading(ends[0]);
  Socket writing(ends[1]);
  Preparation preparation{.parent = getpid(),
                          .group = options.group,
                          .death_signal = options.death_signal,
                          .kept_fd = options.kept_fd,
                          .report_fd = writing.fd(),
                          .arguments = const_cast<char**>(arguments.data()),
                          .variables = const_cast<char**>(set.data())};
  const pid_t child = fork();
  if (child == 0) become(preparation);
  if (child < 0)
    throw BenchError(fmt::format("{} could not be started: {}", options.command[0], std::strerror(errno)));
  (void)setpgid(child, options.group);  // by both, so that the group is there whoever comes first
  { const Socket closed = std::move(writing); }
  if (const int error = exec_error(reading.fd()); error != 0) {
    (void)waitpid(child, nullptr, 0);
    throw InputError(options.command[0], fmt::format("could not be started ({})", std::strerror(error)),
                     "accepted: a program that is installed");
  }
  return child;
}

std::string describe_signal(int signal) { return fmt::format("signal {} ({})", signal, strsignal(signal)); }

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) return "was killed by " + describe_signal(WTERMSIG(status));
  return fmt::format("ended with exit status {}", WEXITSTATUS(status));
}

int exit_status_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace zplan::bench
