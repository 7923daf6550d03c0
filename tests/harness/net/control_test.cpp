// Ranks as threads: what their calls return through memory and through files, and what each rank throws if
// one of them fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "harness/net/controls.h"
#include "models/base/error.h"

namespace zplan::bench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;
using Main = std::function<void(Control&)>;

/// Returns "" if nothing is thrown, else "BenchError: …", "ReportedByAnother: …" or "InputError: …".
std::string outcome_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const ReportedByAnother& error) {
    return std::string("ReportedByAnother: ") + error.what();
  } catch (const BenchError& error) {
    return std::string("BenchError: ") + error.what();
  } catch (const InputError& error) {
    return std::string("InputError: ") + error.what();
  }
  return "";
}

/// Runs each function in a thread of its own.
std::vector<std::string> outcomes_of(const std::vector<std::function<void()>>& ranks) {
  std::vector<std::string> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&ranks, &outcomes, i] { outcomes[i] = outcome_of(ranks[i]); });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

/// A folder that is removed with all that is in it.
class Folder {
 public:
  Folder() {
    std::string pattern = fs::temp_directory_path() / "zplan-control-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] fs::path path(const std::string& name = "run") const { return path_ / name; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(path());
    fs::permissions(path(), fs::perms::owner_all);
    std::ofstream(path() / name) << text;
  }

 private:
  fs::path path_;
};

Place place_of(int rank, int size) { return {.rank = rank, .size = size, .launcher = Launcher::torchrun}; }

std::function<void()> meets(const Folder& folder, const Place& place, Seconds timeout = Seconds(60)) {
  return [&folder, place, timeout] { FileControl(place, folder.path(), timeout).barrier(); };
}

/// A control and its name. The same tests run on each.
struct Connection {
  std::string name;
  std::vector<std::string> (*outcomes)(int size, const Main& rank_main, Seconds timeout);
};
void PrintTo(const Connection& connection, std::ostream* out) { *out << connection.name; }

/// Runs ranks as threads that share memory, with made-up process numbers.
std::vector<std::string> through_memory(int size, const Main& rank_main, Seconds timeout) {
  SharedMemory memory(size);
  std::vector<std::function<void()>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    memory.start(rank, 100 + rank);
    ranks.emplace_back([&, rank] {
      const auto own = std::make_shared<SharedMemory>(dup(memory.descriptor()), size);
      MemoryControl control(own, rank, timeout);
      const std::string outcome = outcome_of([&] { rank_main(control); });
      memory.end(100 + rank, false);
      if (outcome.starts_with("Reported")) throw ReportedByAnother(outcome.substr(outcome.find(' ') + 1));
      if (!outcome.empty()) throw BenchError(outcome.substr(outcome.find(' ') + 1));
    });
  }
  return outcomes_of(ranks);
}

std::vector<std::string> through_files(int size, const Main& rank_main, Seconds timeout) {
  const Folder folder;
  std::vector<std::function<void()>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      FileControl control(place_of(rank, size), folder.path(), timeout);
      rank_main(control);
    });
  const std::vector<std::string> outcomes = outcomes_of(ranks);
  EXPECT_FALSE(fs::exists(folder.path())) << "rank 0 leaves nothing behind";
  return outcomes;
}

class Controls : public testing::TestWithParam<Connection> {
 protected:
  [[nodiscard]] static std::vector<std::string> outcomes(int size, const Main& rank_main,
                                                         Seconds timeout = Seconds(60)) {
    return GetParam().outcomes(size, rank_main, timeout);
  }
};
INSTANTIATE_TEST_SUITE_P(Through, Controls,
                         testing::Values(Connection{"memory", through_memory},
                                         Connection{"files", through_files}),
                         [](const auto& each) { return each.param.name; });

TEST_P(Controls, GatherInOrderOfRanks) {
  const auto seen = outcomes(5, [](Control& control) {
    const auto all = control.all_gather("of " + std::to_string(control.rank()));
    EXPECT_THAT(all, testing::ElementsAre("of 0", "of 1", "of 2", "of 3", "of 4"));
    EXPECT_EQ(control.size(), 5);
  });
  EXPECT_THAT(seen, Each(""));
}

TEST_P(Controls, BroadcastRank0sText) {
  const auto seen = outcomes(4, [](Control& control) {
    EXPECT_EQ(control.broadcast("of " + std::to_string(control.rank())), "of 0");
    EXPECT_EQ(control.broadcast(std::string(3, '\0')), std::string(3, '\0'));
    EXPECT_EQ(control.broadcast(""), "");
  });
  EXPECT_THAT(seen, Each(""));
}

TEST_P(Controls, LetNobodyLeaveABarrierBeforeAllAreIn) {
  std::atomic<int> in = 0;
  const auto seen = outcomes(4, [&in](Control& control) {
    for (int round = 1; round <= 20; ++round) {
      ++in;
      control.barrier();
      EXPECT_GE(in.load(), 4 * round);
    }
  });
  EXPECT_THAT(seen, Each(""));
}

TEST_P(Controls, PassTextsOfAnyLength) {
  const auto seen = outcomes(3, [](Control& control) {
    const auto text = [](int rank) {
      const std::size_t sizes[] = {5'000'001, 0, 65'536};
      return std::string(sizes[rank], static_cast<char>('a' + rank));
    };
    EXPECT_TRUE((control.all_gather(text(control.rank())) == std::vector{text(0), text(1), text(2)}));
    EXPECT_EQ(control.broadcast("next"), "next");
  });
  EXPECT_THAT(seen, Each(""));
}

TEST_P(Controls, OfOneRankNeedNobody) {
  const auto seen = outcomes(1, [](Control& control) {
    EXPECT_THAT(control.all_gather("me"), testing::ElementsAre("me"));
    EXPECT_EQ(control.broadcast("me"), "me");
    control.barrier();
  });
  EXPECT_THAT(seen, Each(""));
}

/// Exactly one rank prints, so that a user reads one line.
void expect_one_report(const std::vector<std::string>& seen, std::size_t gone, const std::string& text) {
  int reports = 0;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (rank == gone) continue;
    reports += seen[rank].starts_with("BenchError: ") && seen[rank].find(text) != std::string::npos ? 1 : 0;
    EXPECT_THAT(seen[rank], testing::AnyOf(HasSubstr(text), StartsWith("ReportedByAnother: ")));
  }
  EXPECT_EQ(reports, 1) << testing::PrintToString(seen);
}

TEST_P(Controls, NameARankThatEnds) {
  const auto seen = outcomes(4, [](Control& control) {
    control.barrier();
    if (control.rank() != 2) control.barrier();
  });
  EXPECT_EQ(seen[2], "");
  expect_one_report(seen, 2, "rank 2 ");
  expect_one_report(seen, 2, " ended");
}

TEST_P(Controls, NameRank0IfItEnds) {
  const auto seen = outcomes(3, [](Control& control) {
    control.barrier();
    if (control.rank() != 0) control.barrier();
  });
  EXPECT_EQ(seen[0], "");
  for (const std::size_t other : {1U, 2U})
    EXPECT_THAT(seen[other],
                testing::AnyOf(HasSubstr("BenchError: rank 0 "), StartsWith("ReportedByAnother")));
  EXPECT_THAT(seen, testing::Contains(StartsWith("BenchError: rank 0 ")));
}

TEST_P(Controls, NameARankThatDoesNotAnswer) {
  std::atomic<bool> over = false;
  const auto seen = outcomes(
      3,
      [&over](Control& control) {
        control.barrier();
        while (control.rank() == 1 && !over) std::this_thread::sleep_for(10ms);
        try {
          (void)control.all_gather("");
        } catch (...) {
          if (control.rank() == 0) over = true;
          throw;
        }
      },
      Seconds(2));
  expect_one_report(seen, 3, "rank 1 ");
  expect_one_report(seen, 3, " did not answer for 2 s");
}

TEST(SharedMemory, SilencesTheOthersIfARankReportedWhyItEnded) {
  SharedMemory memory(2);
  memory.start(1, 4711);
  memory.end(4711, true);
  MemoryControl control(std::make_shared<SharedMemory>(dup(memory.descriptor()), 2), 0, Seconds(60));
  EXPECT_THAT(outcome_of([&] { control.barrier(); }), StartsWith("ReportedByAnother"));
}

TEST(SharedMemory, KeepsTheLastTextOfARankThatEndsAtOnce) {
  for (int round = 0; round < 50; ++round) {
    SharedMemory memory(2);
    memory.start(1, 4711);
    const auto mapped = [&] { return std::make_shared<SharedMemory>(dup(memory.descriptor()), 2); };
    std::thread ends([&] {
      (void)MemoryControl(mapped(), 1, Seconds(60)).all_gather("bye");
      memory.end(4711, false);
    });
    EXPECT_THAT(MemoryControl(mapped(), 0, Seconds(60)).all_gather("me"), testing::ElementsAre("me", "bye"));
    ends.join();
  }
}

TEST(Meeting, RanksMayStartBeforeRank0) {
  const Folder folder;
  const auto late = [&folder] {
    std::this_thread::sleep_for(300ms);
    FileControl(place_of(0, 3), folder.path(), Seconds(60)).barrier();
  };
  EXPECT_THAT(outcomes_of({late, meets(folder, place_of(1, 3)), meets(folder, place_of(2, 3))}), Each(""));
}

TEST(Meeting, FilesOfAnEarlierRunDoNoHarm) {
  const Folder folder;
  folder.write("hello.1", "old 1 2 42 gone\n");
  folder.write("hello.5", "old 5 8 42 gone\n");
  folder.write("welcome", "dead 0 2 41 gone\nold 1 2 42 gone\n");
  folder.write("dead.call0.1", "old 1 2 42 gone\n");
  folder.write("dead.call0.all", "16 16 \nx");
  folder.write("dead.failed.0", "it failed");
  folder.write("dead.ended.0", "");
  const auto late = [&folder] {
    std::this_thread::sleep_for(100ms);
    FileControl(place_of(1, 2), folder.path(), Seconds(60)).barrier();
  };
  EXPECT_THAT(outcomes_of({meets(folder, place_of(0, 2)), late}), Each(""));
}

TEST(Meeting, MissingRanksAreNamedWithTheFile) {
  const Folder folder;
  const auto seen =
      outcomes_of({meets(folder, place_of(0, 4), Seconds(0.5)), meets(folder, place_of(2, 4), Seconds(20))});
  EXPECT_THAT(seen[0], StartsWith("BenchError: rank 0 on host " + host_name() + ": no file " +
                                  folder.path().string() + "/"));
  EXPECT_THAT(seen[0], HasSubstr(".call0.RANK of ranks 1, 3 of 4 within 0.5 s: start every rank, and name a "
                                 "folder on a disk that all hosts share (--meet)"));
  // On a busy machine rank 2 may itself have been missing.
  EXPECT_THAT(seen[1], testing::AnyOf("ReportedByAnother: " + seen[0].substr(12), HasSubstr("rank 2")));
}

TEST(Meeting, WithoutRank0IsGivenUpInTime) {
  const Folder folder;
  EXPECT_EQ(
      outcome_of(meets(folder, place_of(1, 2), Seconds(0.2))),
      "BenchError: rank 1 on host " + host_name() + ": no file " + folder.path().string() +
          "/welcome of rank 0 of 2 within 0.2 s: start every rank, and name a folder on a disk that all "
          "hosts share (--meet)");
}

TEST(Meeting, AnotherNumberOfRanksIsNamed) {
  const Folder folder;
  const auto seen = outcomes_of({meets(folder, place_of(0, 2)), meets(folder, place_of(1, 3))});
  EXPECT_THAT(seen[0], StartsWith("BenchError: rank 1 on host " + host_name()));
  EXPECT_THAT(seen[0], HasSubstr("was started as one of 3 ranks, rank 0 on host " + host_name() +
                                 " as one of 2: start all with one number of ranks"));
  EXPECT_EQ(seen[1], "ReportedByAnother: " + seen[0].substr(12));
}

TEST(Meeting, OneRankTwiceNamesBothProcesses) {
  const Folder folder;
  const auto first = [&folder] { FileControl(place_of(1, 2), folder.path(), Seconds(60)).barrier(); };
  const auto second = [&folder] {
    while (!fs::exists(folder.path("run") / "hello.1")) std::this_thread::sleep_for(1ms);
    FileControl(place_of(1, 2), folder.path(), Seconds(1)).barrier();
  };
  const auto seen = outcomes_of({first, second});
  EXPECT_THAT(seen[0], StartsWith("BenchError: two processes have one rank: rank 1 on host " + host_name()));
}

TEST(Meeting, AFolderThatCannotBeWrittenIsNamed) {
  const Folder folder;
  folder.write("file", "");
  const std::string path = (folder.path() / "file" / "run").string();
  EXPECT_THAT(outcome_of([&] { FileControl(place_of(1, 2), path, Seconds(60)).barrier(); }),
              StartsWith("InputError: --meet: \"" + path + "\" cannot be created: "));
}

TEST(Meeting, OtherUsersCannotJoinOrHaveFilesRemoved) {
  const Folder folder;
  fs::create_directories(folder.path("open"));
  fs::permissions(folder.path("open"), fs::perms::all);
  folder.write("mine", "MINE");
  fs::create_directory_symlink(folder.path(), folder.path("link"));
  const auto meet = [&](const std::string& name) {
    return outcome_of([&, name] { FileControl(place_of(0, 2), folder.path(name), Seconds(0.1)).barrier(); });
  };
  EXPECT_THAT(meet("open"), HasSubstr("can be written by other users; accepted: a folder"));
  EXPECT_THAT(meet("link"), HasSubstr("is there and is no folder"));
  EXPECT_TRUE(fs::exists(folder.path() / "mine"));
  EXPECT_THAT(meet("new"), HasSubstr("start every rank"));
}

TEST(Meeting, TheFolderIsOfItsUserAlone) {
  const Folder folder;
  fs::perms seen{};
  const auto first = [&] {
    FileControl control(place_of(0, 2), folder.path(), Seconds(60));
    seen = fs::status(folder.path()).permissions();
    control.barrier();
  };
  EXPECT_THAT(outcomes_of({first, meets(folder, place_of(1, 2))}), Each(""));
  EXPECT_EQ(seen, fs::perms::owner_all);
}

TEST(Meeting, AFileThatAnotherProgramChangedEndsTheRun) {
  const Folder folder;
  const auto forged = [&](const std::string& all) {
    fs::remove_all(folder.path());
    return outcomes_of({meets(folder, place_of(1, 2)), [&] {
                          std::string hello;
                          while (!std::getline(std::ifstream(folder.path() / "hello.1"), hello))
                            std::this_thread::sleep_for(1ms);
                          folder.write("dead.call0.all", all);
                          folder.write("new", "dead 0 2 41 h\n" + hello + "\n");
                          fs::rename(folder.path() / "new", folder.path() / "welcome");
                        }})[0];
  };
  for (const char* all : {"", "1 99999999999 \nx", "1 1 1 \nxyz", "1 1 \nxyz"})
    EXPECT_THAT(forged(all), HasSubstr("was changed by another program")) << all;
}

TEST(Meeting, ARankWhoseProcessIsGoneIsNoticed) {
  const Folder folder;
  std::atomic<bool> over = false;
  const auto first = [&] {
    FileControl control(place_of(0, 2), folder.path(), Seconds(60));
    const std::string outcome = outcome_of([&] { control.barrier(); });
    over = true;
    if (!outcome.empty()) throw BenchError(outcome);
  };
  const pid_t child = fork();
  if (child == 0) {
    FileControl control(place_of(1, 2), folder.path(), Seconds(60));
    _exit(0);  // ends like a killed process, without a file that says so
  }
  EXPECT_THAT(outcomes_of({first})[0], HasSubstr(" is gone: nothing was written to "));
  EXPECT_TRUE(over);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(Meeting, FoldersTellRunsApart) {
  Place place = place_of(0, 2);
  place.run = "17.0";
  const std::string own = "zplan-bench-" + std::to_string(geteuid()) + "-17.0";
  EXPECT_EQ(meeting_folder(place, "/shared"), "/shared/" + own);
  EXPECT_EQ(meeting_folder(place, ""), (fs::current_path() / own).string());
  place.one_host = true;
  EXPECT_EQ(meeting_folder(place, ""), (fs::temp_directory_path() / own).string());
}

}  // namespace
}  // namespace zplan::bench
