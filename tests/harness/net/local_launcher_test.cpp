// Real processes: how they are started, what is said when one ends badly, and that none is left.

#include "harness/net/local_launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "harness/error.h"
#include "harness/net/socket.h"
#include "models/base/error.h"

namespace zplan::bench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// A folder for what children leave; gone with the test.
struct Folder {
  Folder() {
    std::string pattern = fs::temp_directory_path() / "zplan-launcher-XXXXXX";
    path = mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }

  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream file(path / name);
    std::string line;
    std::getline(file, line);
    return line;
  }
  fs::path path;
};

bool comes_true(const std::function<bool()>& what) {
  const Deadline deadline = Clock::now() + 60s;
  while (!what()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

/// Process numbers that `count` ranks announced; what they do is in place then.
std::vector<pid_t> announced(const Folder& folder, int count) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < count; ++rank) {
    const std::string name = std::to_string(rank);
    EXPECT_TRUE(comes_true([&] { return fs::exists(folder.path / name); })) << name;
    pids.push_back(static_cast<pid_t>(std::stol(fmt::format("0{}", folder.text(name)))));
    EXPECT_GT(pids.back(), 1);
  }
  return pids;
}

/// Gone, or waiting to be collected by whoever it was left to.
bool is_over(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  if (!std::getline(file, stat)) return true;
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.substr(name_end + 2, 1).find_first_of("ZX") == 0;
}

std::vector<std::string> words(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ZPLAN_TEST_CHILD);
  return arguments;
}

struct Outcome {
  int status{};
  std::vector<std::string> said;
};

Outcome outcome_of_ranks(int ranks, std::vector<std::string> arguments,
                         std::chrono::milliseconds grace = 200ms) {
  Outcome outcome;
  outcome.status = run_local(
      {.ranks = ranks,
       .command = words(std::move(arguments)),
       .environment = {{"EXTRA", "more"}},
       .grace = grace,
       .on_failure = [&outcome](const Ending& ending) { outcome.said.push_back(describe(ending)); }});
  return outcome;
}

/// A launcher in a process of its own, which a test may kill.
pid_t start(std::vector<std::string> arguments) {
  return start_child({.command = words(std::move(arguments)), .environment = {{"RANK", "0"}}});
}

int status_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return exit_status_of(status);
}

TEST(LocalLauncher, GivesEveryRankItsPlace) {
  const Folder folder;
  EXPECT_EQ(outcome_of_ranks(3, {"variables", folder.path}).status, 0);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(folder.text(std::to_string(rank)), fmt::format("3 {} 3 127.0.0.1 1 local more 0", rank));
}

TEST(LocalLauncher, RanksMeetAtThePortItFound) { EXPECT_EQ(outcome_of_ranks(4, {"meet", "4"}).status, 0); }

TEST(LocalLauncher, TwoRunsAtOnceDoNotMeet) {
  const pid_t one = start({"launch", "2", "meet", "2"}), other = start({"launch", "3", "meet", "3"});
  EXPECT_EQ(status_of(one), 0);
  EXPECT_EQ(status_of(other), 0);
}

TEST(LocalLauncher, SaysOnceWhichRankFailedAndEndsTheOthers) {
  const Outcome exit = outcome_of_ranks(3, {"rank-exits", "1", "7"});
  EXPECT_EQ(exit.status, 7);
  EXPECT_THAT(exit.said, testing::ElementsAre(
                             testing::MatchesRegex("rank 1 \\(pid [0-9]+\\) ended with exit status 7")));
  const Outcome death = outcome_of_ranks(3, {"rank-dies", "2", "9"});
  EXPECT_EQ(death.status, 137);
  EXPECT_THAT(death.said, testing::ElementsAre(testing::MatchesRegex(
                              "rank 2 \\(pid [0-9]+\\) was killed by signal 9 \\(Killed\\)")));
}

TEST(LocalLauncher, GivesTheOthersTimeToEnd) {
  const auto before = Clock::now();
  EXPECT_EQ(outcome_of_ranks(2, {"rank-exits", "0", "3"}, 700ms).status, 3);
  EXPECT_GE(Clock::now() - before, 700ms);
}

TEST(LocalLauncher, AllThatEndWellTakeNoTime) {
  const Outcome outcome = outcome_of_ranks(8, {"exit", "0"}, 1h);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.said, testing::IsEmpty());
}

TEST(LocalLauncher, AProgramThatIsNotThereIsNamed) {
  for (const char* program : {"/no/such/program", "zplan-no-such-program"}) {
    try {
      (void)run_local({.ranks = 2, .command = {program}});
      FAIL() << program;
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()),
                std::string(program) +
                    ": could not be started (No such file or directory); accepted: a program "
                    "that is installed");
    }
  }
}

TEST(LocalLauncher, KilledLeavesNoRank) {
  const Folder folder;
  const pid_t launcher = start({"launch", "3", "ignore", folder.path});
  const std::vector<pid_t> ranks = announced(folder, 3);
  ASSERT_EQ(kill(launcher, SIGKILL), 0);
  EXPECT_EQ(status_of(launcher), 137);
  for (const pid_t rank : ranks) EXPECT_TRUE(comes_true([rank] { return is_over(rank); })) << rank;
}

TEST(LocalLauncher, PassesTheFirstInterruptOnAsSigint) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Folder folder;
    const pid_t launcher = start({"launch", "2", "catch", folder.path});
    (void)announced(folder, 2);
    ASSERT_EQ(kill(launcher, signal), 0);
    EXPECT_EQ(status_of(launcher), SIGINT) << "ranks return the signal that they caught";
  }
}

TEST(LocalLauncher, KillsAtTheSecondInterrupt) {
  const Folder folder;
  const pid_t launcher = start({"launch", "2", "ignore", folder.path});
  const std::vector<pid_t> ranks = announced(folder, 2);
  ASSERT_EQ(kill(launcher, SIGINT), 0);
  // The same signal again would be one with the first where that is not taken yet.
  ASSERT_EQ(kill(launcher, SIGTERM), 0);
  EXPECT_EQ(status_of(launcher), 137);
  for (const pid_t rank : ranks) EXPECT_TRUE(is_over(rank));
}

TEST(RunCommand, PassesTheStatusOn) {
  EXPECT_EQ(run_command({.command = words({"exit", "0"})}), 0);
  EXPECT_EQ(run_command({.command = words({"exit", "5"})}), 5);
  EXPECT_EQ(run_command({.command = words({"die", "15"})}), 128 + 15);
}

TEST(RunCommand, TranslatesTheFirstInterrupt) {
  const Folder folder;
  const pid_t parent = start({"command", "catch", folder.path});
  (void)announced(folder, 1);
  ASSERT_EQ(kill(parent, SIGINT), 0);
  EXPECT_EQ(status_of(parent), SIGUSR1);
}

TEST(RunCommand, EndsTheChildAtTheSecondAndKillsOneThatStays) {
  const Folder folder;
  const pid_t parent = start({"command", "ignore", folder.path});
  const pid_t child = announced(folder, 1)[0];
  ASSERT_EQ(kill(parent, SIGINT), 0);
  ASSERT_EQ(kill(parent, SIGTERM), 0);
  EXPECT_EQ(status_of(parent), 137);
  EXPECT_TRUE(is_over(child));
}

TEST(RunCommand, KilledHasTheChildToldToEnd) {
  const Folder folder;
  const pid_t parent = start({"command", "catch", folder.path});
  const pid_t child = announced(folder, 1)[0];
  ASSERT_EQ(kill(parent, SIGKILL), 0);
  EXPECT_EQ(status_of(parent), 137);
  EXPECT_TRUE(comes_true([child] { return is_over(child); }));
}

TEST(RunCommand, LeavesSignalsAsTheyWere) {
  sigset_t before{}, after{};
  (void)pthread_sigmask(SIG_SETMASK, nullptr, &before);
  (void)run_command({.command = words({"exit", "0"})});
  (void)pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
}

}  // namespace
}  // namespace zplan::bench
