#include "harness/net/local_launcher.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "harness/net/socket.h"

namespace zplan::bench {

namespace {

/// Keeps the signals that matter here for waiting on them, and puts things back.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigemptyset(&signals_);
    for (const int each : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, each);
    (void)pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;  // where SIGCHLD is ignored, children leave no status
    (void)sigaction(SIGCHLD, &usual, &child_before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() {
    (void)sigaction(SIGCHLD, &child_before_, nullptr);
    (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  /// The next signal, or 0 at the deadline.
  [[nodiscard]] int next(std::optional<Deadline> deadline) const {
    const int left = deadline ? milliseconds_until(*deadline) : 3'600'000;
    const timespec time{.tv_sec = left / 1000, .tv_nsec = (left % 1000) * 1'000'000L};
    const int signal = sigtimedwait(&signals_, nullptr, &time);
    return std::max(signal, 0);
  }

 private:
  sigset_t signals_{}, before_{};
  struct sigaction child_before_ {};
};

/// What children get, and when.
struct Rules {
  int interrupt_signal{SIGINT};
  int end_signal{SIGKILL};
  std::chrono::milliseconds grace{};
  std::function<void(const Ending&)> on_failure{};
};

/// Children of one process group, until all have ended.
class Group {
 public:
  Group(Rules rules, const SignalsHeld& signals) : rules_(std::move(rules)), signals_(signals) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Where the start of one more failed.
  ~Group() {
    if (alive_.empty()) return;
    (void)kill(-group_, SIGKILL);
    for (const Ending& child : alive_) (void)waitpid(child.pid, nullptr, 0);
  }

  void add(ChildOptions options) {
    options.group = group_;
    const pid_t pid = start_child(options);
    if (group_ == 0) group_ = pid;
    alive_.push_back({.rank = static_cast<int>(alive_.size()), .pid = pid});
  }

  /// Returns the exit status of the first that failed, or 0.
  int wait() {
    while (!alive_.empty()) {
      const int signal = signals_.next(deadline_);
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) pass_on();
      reap();
      if (deadline_ && Clock::now() >= *deadline_) end(SIGKILL);
    }
    return first_ ? exit_status_of(first_->status) : 0;
  }

 private:
  void pass_on() {
    if (++interrupts_ == 1)
      (void)kill(-group_, rules_.interrupt_signal);
    else
      end(rules_.end_signal), end_within_grace();
  }

  void end(int signal) {
    (void)kill(-group_, signal);
    ended_here_ = true;
    if (signal == SIGKILL) deadline_.reset();
  }

  void end_within_grace() {
    if (rules_.end_signal != SIGKILL) deadline_ = Clock::now() + rules_.grace;
  }

  void reap() {
    std::vector<Ending> ended;
    std::erase_if(alive_, [&ended](Ending& child) {
      if (waitpid(child.pid, &child.status, WNOHANG) != child.pid) return false;
      ended.push_back(child);
      return true;
    });
    // Of several at one time, one that was killed is why the others ended rather than the other way round.
    std::stable_partition(ended.begin(), ended.end(),
                          [](const Ending& each) { return WIFSIGNALED(each.status); });
    for (const Ending& each : ended) note(each);
  }

  void note(const Ending& ending) {
    if (first_ || exit_status_of(ending.status) == 0) return;
    first_ = ending;
    if (rules_.on_failure && !is_our_doing(ending)) rules_.on_failure(ending);
    if (!deadline_) deadline_ = Clock::now() + rules_.grace;
  }

  /// Ended as it was told to.
  [[nodiscard]] bool is_our_doing(const Ending& ending) const {
    return ended_here_ || (interrupts_ > 0 && exit_status_of(ending.status) == 128 + rules_.interrupt_signal);
  }

  Rules rules_;
  const SignalsHeld& signals_;
  pid_t group_{};
  std::vector<Ending> alive_;
  std::optional<Ending> first_;
  std::optional<Deadline> deadline_;  ///< when those that still run are killed
  int interrupts_{};
  bool ended_here_{};
};

Settings place_of(const LocalRun& run, int rank, const Socket& listener) {
  Settings all = run.environment;
  const std::string size = std::to_string(run.ranks);
  all.insert(all.end(), {{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", size},
                         {"LOCAL_RANK", std::to_string(rank)},
                         {"LOCAL_WORLD_SIZE", size},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", std::to_string(listening_port(listener.fd()))},
                         {"ZPLAN_LAUNCHED", "local"}});
  if (rank == 0) all.emplace_back("ZPLAN_LISTEN_FD", std::to_string(listener.fd()));
  return all;
}

}  // namespace

std::string describe(const Ending& ending) {
  return fmt::format("rank {} (pid {}) {}", ending.rank, ending.pid, describe_status(ending.status));
}

int run_local(const LocalRun& run) {
  std::vector<Socket> listeners = listen_at({.address = "127.0.0.1", .port = 0});
  const SignalsHeld signals;
  Group group({.grace = run.grace, .on_failure = run.on_failure}, signals);
  for (int rank = 0; rank < run.ranks; ++rank)
    group.add({.command = run.command,
               .environment = place_of(run, rank, listeners.front()),
               .kept_fd = rank == 0 ? listeners.front().fd() : -1});
  listeners.clear();  // from here on rank 0 alone has it: where it ends, so does the port
  return group.wait();
}

int run_command(const CommandRun& run) {
  const SignalsHeld signals;
  Group group({.interrupt_signal = run.interrupt_signal, .end_signal = run.end_signal, .grace = run.grace},
              signals);
  group.add({.command = run.command, .environment = run.environment, .death_signal = run.end_signal});
  return group.wait();
}

}  // namespace zplan::bench
