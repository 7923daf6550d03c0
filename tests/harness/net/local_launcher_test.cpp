// Real processes: how they are started, what is printed when one ends badly, and that none is left.

#include "harness/net/local_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "harness/timing.h"

namespace zplan::bench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Words = std::vector<std::string>;

bool comes_true(const std::function<bool()>& what) {
  const Clock::time_point deadline = Clock::now() + 60s;
  while (!what()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

/// Gone, or waiting to be collected by whoever it was left to.
bool is_over(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  if (!std::getline(file, stat)) return true;
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.substr(name_end + 2, 1).find_first_of("ZX") == 0;
}

int status_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// A launcher in a process of its own, which the test may kill, and a folder for what its ranks leave.
class Launchers : public testing::Test {
 protected:
  Launchers() {
    std::string pattern = fs::temp_directory_path() / "zplan-launcher-XXXXXX";
    folder = mkdtemp(pattern.data());
  }
  ~Launchers() override { fs::remove_all(folder); }

  /// Runs a launcher, whose stderr goes to the file "said".
  pid_t start(const std::function<int()>& launch) const {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    const int said = open((folder / "said").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dup2(said, STDERR_FILENO);
    (void)setenv("FOLDER", folder.c_str(), 1);
    _exit(launch());
  }
  pid_t start_local(int ranks, const Words& command, std::chrono::milliseconds end_within = 200ms) const {
    return start([&] { return run_local(ranks, command, end_within); });
  }
  pid_t start_mpirun(const Words& command) const {
    return start([&] { return run_mpirun(command, 200ms); });
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream file(folder / name);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  /// Process numbers that `count` ranks left; what they do is in place then.
  [[nodiscard]] std::vector<pid_t> announced(int count) const {
    std::vector<pid_t> pids;
    for (int rank = 0; rank < count; ++rank) {
      const std::string name = std::to_string(rank);
      EXPECT_TRUE(comes_true([&] { return text(name).ends_with('\n'); })) << name;
      pids.push_back(static_cast<pid_t>(std::stol("0" + text(name))));
      EXPECT_GT(pids.back(), 1);
    }
    return pids;
  }

  fs::path folder;
};

Words shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

const std::string kAnnounce = "echo $$ > $FOLDER/${RANK:-0}; ";
const std::string kWait = "while :; do sleep 0.05; done";
/// Ends with the number of the signal that it got.
const Words kCatch =
    shell("trap 'exit 2' INT; trap 'exit 10' USR1; trap 'exit 15' TERM; " + kAnnounce + kWait);
const Words kIgnore = shell("trap '' INT USR1 TERM; " + kAnnounce + "exec sleep 120");

TEST_F(Launchers, GiveEveryRankItsPlace) {
  const Words command = shell(
      "[ -e /proc/self/fd/$ZPLAN_SHARED_MEMORY ] && echo $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE"
      " > $FOLDER/$RANK");
  EXPECT_EQ(status_of(start_local(3, command)), 0);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(text(std::to_string(rank)), fmt::format("3 {} 3\n", rank));
}

TEST_F(Launchers, TwoAtOnceHaveRanksThatMeetOnlyTheirOwn) {
  const Words command{(fs::read_symlink("/proc/self/exe").parent_path() / "rank_that_meets").string()};
  const pid_t one = start_local(2, command), other = start_local(4, command);
  EXPECT_EQ(status_of(one), 0);
  EXPECT_EQ(status_of(other), 0);
}

TEST_F(Launchers, LetRanksReportOneThatLeftBeforeTheyMet) {
  const std::string meets = (fs::read_symlink("/proc/self/exe").parent_path() / "rank_that_meets").string();
  EXPECT_EQ(status_of(start_local(3, shell("[ $RANK = 2 ] && exit 0; exec " + meets), 60s)), 1);
  EXPECT_THAT(text("said"), testing::ContainsRegex("rank 2 \\(pid [0-9]+\\) ended\n"));
}

TEST_F(Launchers, NameARankThatIsKilledAndEndTheOthers) {
  EXPECT_EQ(status_of(start_local(3, shell("[ $RANK = 2 ] && kill -9 $$; exec sleep 120"))), 137);
  EXPECT_THAT(
      text("said"),
      testing::MatchesRegex("zplan: bench: rank 2 \\(pid [0-9]+\\) was killed by signal 9 \\(Killed\\)\n"));
}

TEST_F(Launchers, LeaveItToARankThatExitsToSayWhy) {
  EXPECT_EQ(status_of(start_local(3, shell("[ $RANK = 1 ] && exit 7; exec sleep 120"))), 7);
  EXPECT_EQ(text("said"), "");
}

TEST_F(Launchers, GiveTheOthersTimeToEnd) {
  const auto before = Clock::now();
  EXPECT_EQ(status_of(start_local(2, shell("[ $RANK = 0 ] && exit 3; exec sleep 120"), 700ms)), 3);
  EXPECT_GE(Clock::now() - before, 700ms);
}

TEST_F(Launchers, TakeNoTimeWhereAllEndWell) {
  EXPECT_EQ(status_of(start_local(8, {"true"}, 1h)), 0);
  EXPECT_EQ(text("said"), "");
}

TEST_F(Launchers, SayWhereAProgramCannotBeStarted) {
  EXPECT_EQ(status_of(start_local(1, {"/no/such/program"})), 127);
  EXPECT_EQ(text("said"), "zplan: bench: a rank could not be started\n");
}

TEST_F(Launchers, ThatAreKilledLeaveNoRank) {
  const pid_t launcher = start_local(3, kIgnore);
  const std::vector<pid_t> ranks = announced(3);
  ASSERT_EQ(kill(launcher, SIGKILL), 0);
  EXPECT_EQ(status_of(launcher), 137);
  for (const pid_t rank : ranks) EXPECT_TRUE(comes_true([rank] { return is_over(rank); })) << rank;
}

TEST_F(Launchers, PassTheFirstSignalOnAsSigint) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    for (const char* each : {"0", "1"}) fs::remove(folder / each);
    const pid_t launcher = start_local(2, kCatch, 60s);
    (void)announced(2);
    ASSERT_EQ(kill(launcher, signal), 0);
    EXPECT_EQ(status_of(launcher), SIGINT);
  }
}

TEST_F(Launchers, KillAtTheSecondSignal) {
  const pid_t launcher = start_local(2, kIgnore, 60s);
  const std::vector<pid_t> ranks = announced(2);
  // Two different signals: a pending signal is not queued a second time.
  for (const int signal : {SIGINT, SIGTERM}) ASSERT_EQ(kill(launcher, signal), 0);
  EXPECT_EQ(status_of(launcher), 137);
  for (const pid_t rank : ranks) EXPECT_TRUE(is_over(rank));
  EXPECT_EQ(text("said"), "") << "they ended as they were told to";
}

TEST_F(Launchers, OfMpirunPassItsStatusOn) {
  for (const int status : {0, 5})
    EXPECT_EQ(status_of(start_mpirun(shell(fmt::format("exit {}", status)))), status);
  EXPECT_EQ(status_of(start_mpirun(shell("kill -15 $$"))), 128 + 15);
}

TEST_F(Launchers, OfMpirunPassTheFirstSignalOnAsSigusr1) {
  const pid_t launcher = start_mpirun(kCatch);
  (void)announced(1);
  ASSERT_EQ(kill(launcher, SIGINT), 0);
  EXPECT_EQ(status_of(launcher), SIGUSR1);
}

TEST_F(Launchers, OfMpirunKillItWhereItIgnoresTheSecondSignal) {
  const pid_t launcher = start_mpirun(kIgnore);
  const pid_t child = announced(1)[0];
  for (const int signal : {SIGINT, SIGTERM}) ASSERT_EQ(kill(launcher, signal), 0);
  EXPECT_EQ(status_of(launcher), 137);
  EXPECT_TRUE(is_over(child));
}

TEST_F(Launchers, OfMpirunThatAreKilledHaveItToldToEnd) {
  const pid_t launcher = start_mpirun(kCatch);
  const pid_t child = announced(1)[0];
  ASSERT_EQ(kill(launcher, SIGKILL), 0);
  EXPECT_EQ(status_of(launcher), 137);
  EXPECT_TRUE(comes_true([child] { return is_over(child); }));
}

}  // namespace
}  // namespace zplan::bench
