#include "harness/net/local_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>

#include "harness/net/controls.h"
#include "harness/timing.h"

namespace zplan::bench {

namespace {

/// Blocks the signals that sigtimedwait() waits for, and returns them.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, each);
  (void)pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  (void)std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, children leave no status
  return signals;
}

int exit_status_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// Signals that children get.
struct Signals {
  int interrupt{};  ///< for the first one that this process gets
  int end{};        ///< for the next one, and where this process dies
};

struct Child {
  std::string name{};
  pid_t pid{};
  int status{};  ///< of waitpid(2)
};

/// Children of one process group, until all have ended.
class Group {
 public:
  Group(Signals signals, std::chrono::milliseconds end_within)
      : awaited_(block_signals()), signals_(signals), end_within_(end_within) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Kills the children if a later one could not be started.
  ~Group() {
    if (alive_.empty()) return;
    (void)kill(-group_, SIGKILL);
    for (const Child& child : alive_) (void)waitpid(child.pid, nullptr, 0);
  }

  pid_t start(const std::string& name, std::vector<std::string> command);
  /// Waits until all have ended and calls `ended` for each. Returns the exit status of the first that failed,
  /// or 0.
  [[nodiscard]] int wait(const std::function<void(const Child&)>& ended = {});

 private:
  void pass_on();
  void end(int signal);
  void collect(const std::function<void(const Child&)>& ended);
  void note(const Child& child);

  const sigset_t awaited_;
  const Signals signals_;
  const std::chrono::milliseconds end_within_;
  pid_t group_{};
  std::vector<Child> alive_;
  int first_failure_{};  ///< exit status
  int interrupts_{};
  bool ended_here_{};
  std::optional<Clock::time_point> deadline_;  ///< when those that still run are killed
};

/// Runs the command in a forked child. Makes only system calls before exec, since other threads may hold
/// locks.
[[noreturn]] void become(char** arguments, pid_t parent, pid_t group, int death_signal) {
  (void)setpgid(0, group);
  (void)prctl(PR_SET_PDEATHSIG, death_signal);
  if (getppid() != parent) _exit(128 + SIGKILL);  // it was gone before the line above
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC); nothing >= 0)
    (void)dup2(nothing, STDIN_FILENO);
  (void)execvp(arguments[0], arguments);
  constexpr std::string_view kText = "zplan: bench: a rank could not be started\n";
  (void)!write(STDERR_FILENO, kText.data(), kText.size());
  _exit(127);
}

pid_t Group::start(const std::string& name, std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& each : command) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) become(arguments.data(), parent, group_, signals_.end);
  if (child < 0)
    throw BenchError(fmt::format("{} could not be started: {}", command[0], std::strerror(errno)));
  (void)setpgid(child, group_);  // by both processes, so that the group exists whichever is first
  if (group_ == 0) group_ = child;
  alive_.push_back({.name = name, .pid = child});
  return child;
}

int Group::wait(const std::function<void(const Child&)>& ended) {
  while (!alive_.empty()) {
    const auto left = deadline_ ? *deadline_ - Clock::now() : std::chrono::hours(1);
    const auto wait = std::max<std::int64_t>(std::chrono::nanoseconds(left).count(), 0);
    const timespec time{.tv_sec = wait / 1'000'000'000, .tv_nsec = wait % 1'000'000'000};
    const int signal = sigtimedwait(&awaited_, nullptr, &time);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) pass_on();
    collect(ended);
    if (deadline_ && Clock::now() >= *deadline_) end(SIGKILL);
  }
  return first_failure_;
}

void Group::pass_on() {
  if (++interrupts_ == 1)
    (void)kill(-group_, signals_.interrupt);
  else
    end(signals_.end);
}

void Group::end(int signal) {
  (void)kill(-group_, signal);
  ended_here_ = true;
  deadline_ = signal == SIGKILL ? std::nullopt : std::optional(Clock::now() + end_within_);
}

void Group::collect(const std::function<void(const Child&)>& on_end) {
  std::vector<Child> ended;
  std::erase_if(alive_, [&ended](Child& child) {
    if (waitpid(child.pid, &child.status, WNOHANG) != child.pid) return false;
    ended.push_back(child);
    return true;
  });
  // If several ended since the last look, a killed one is the cause, not those that exited.
  std::stable_partition(ended.begin(), ended.end(),
                        [](const Child& each) { return WIFSIGNALED(each.status); });
  for (const Child& each : ended) {
    note(each);
    if (on_end) on_end(each);
  }
}

void Group::note(const Child& child) {
  const int status = exit_status_of(child.status);
  if (first_failure_ != 0 || status == 0) return;
  first_failure_ = status;
  const bool as_told = ended_here_ || (interrupts_ > 0 && status == 128 + signals_.interrupt);
  if (WIFSIGNALED(child.status) && !as_told) {  // one that exits says why itself
    const int signal = WTERMSIG(child.status);
    std::fprintf(stderr, "zplan: bench: %s (pid %d) was killed by signal %d (%s)\n", child.name.c_str(),
                 child.pid, signal, strsignal(signal));
  }
  if (!deadline_) deadline_ = Clock::now() + end_within_;
}

void set(const char* name, const std::string& value) { (void)setenv(name, value.c_str(), 1); }

}  // namespace

int run_local(int ranks, const std::vector<std::string>& command, std::chrono::milliseconds end_within) {
  SharedMemory memory(ranks);
  Group group({.interrupt = SIGINT, .end = SIGKILL}, end_within);
  set("ZPLAN_SHARED_MEMORY", std::to_string(memory.descriptor()));
  set("WORLD_SIZE", std::to_string(ranks)), set("LOCAL_WORLD_SIZE", std::to_string(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    set("RANK", std::to_string(rank)), set("LOCAL_RANK", std::to_string(rank));
    memory.start(rank, group.start(fmt::format("rank {}", rank), command));
  }
  // A rank that fails prints why itself, and Group prints which rank was killed.
  return group.wait([&](const Child& child) { memory.end(child.pid, exit_status_of(child.status) != 0); });
}

int run_mpirun(const std::vector<std::string>& command, std::chrono::milliseconds end_within) {
  Group group({.interrupt = SIGUSR1, .end = SIGTERM}, end_within);
  group.start("mpirun", command);
  return group.wait();
}

}  // namespace zplan::bench
