// Ranks as threads on loopback: how they connect, what their calls return, and what each rank is told when
// one of them fails.

#include "harness/net/tcp_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "harness/error.h"
#include "harness/host_name.h"
#include "models/base/error.h"

namespace zplan::bench {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

/// "": no exception; else "BenchError: …", "ToldByAnother: …", "InputError: …".
std::string outcome_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const ToldByAnother& error) {
    return std::string("ToldByAnother: ") + error.what();
  } catch (const BenchError& error) {
    return std::string("BenchError: ") + error.what();
  } catch (const InputError& error) {
    return std::string("InputError: ") + error.what();
  }
  return "";
}

/// Each in a thread.
std::vector<std::string> outcomes_of(const std::vector<std::function<void()>>& ranks) {
  std::vector<std::string> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&ranks, &outcomes, i] { outcomes[i] = outcome_of(ranks[i]); });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

/// A port of the system's choice, listened at for rank 0.
struct TestPort {
  [[nodiscard]] Place place(int rank, int size) const {
    return {.rank = rank,
            .size = size,
            .master_address = "127.0.0.1",
            .master_port = port,
            .listen_fd = rank == 0 ? dup(listener.fd()) : -1};
  }
  [[nodiscard]] Socket connect() const {
    std::string reason;
    return connect_once("127.0.0.1", port, Clock::now() + 30s, reason);
  }
  /// A rank that connects, gets rank 0's answer, and does what it wants then.
  [[nodiscard]] Socket connect_as(const std::string& hello) const {
    Socket socket = connect();
    say(socket, hello);
    (void)wait_for(socket.fd(), 1, Clock::now() + 30s);
    return socket;
  }
  static void say(const Socket& socket, std::string_view bytes) {
    (void)send_all(socket.fd(), bytes, Clock::now() + 30s);
  }
  Socket listener{listen_at("127.0.0.1", 0)};
  int port{listening_port(listener.fd())};
};

std::function<void()> meets(const Place& place, std::chrono::milliseconds timeout = 60s) {
  return [place, timeout] { TcpControl(place, timeout).barrier(); };
}

/// `size` ranks that connect and then do `what`.
std::vector<std::string> outcomes_of(int size, const std::function<void(TcpControl&)>& what,
                                     std::chrono::milliseconds timeout = 60s) {
  const TestPort port;
  std::vector<std::function<void()>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([place = port.place(rank, size), timeout, &what] {
      TcpControl control(place, timeout);
      what(control);
    });
  return outcomes_of(ranks);
}

/// "rank 2 on host b (pid 4711)", of a thread of this process.
std::string name_of(int rank) {
  return "rank " + std::to_string(rank) + " on host " + host_name() + " (pid " + std::to_string(getpid()) +
         ")";
}

TEST(TcpControl, GathersInOrderOfRanks) {
  EXPECT_THAT(outcomes_of(5,
                          [](TcpControl& control) {
                            const auto all = control.all_gather("of " + std::to_string(control.rank()));
                            EXPECT_THAT(all, testing::ElementsAre("of 0", "of 1", "of 2", "of 3", "of 4"));
                            EXPECT_EQ(control.size(), 5);
                          }),
              Each(""));
}

TEST(TcpControl, BroadcastsRank0sText) {
  EXPECT_THAT(outcomes_of(4,
                          [](TcpControl& control) {
                            EXPECT_EQ(control.broadcast("of " + std::to_string(control.rank())), "of 0");
                            EXPECT_EQ(control.broadcast(std::string(3, '\0')), std::string(3, '\0'));
                          }),
              Each(""));
}

TEST(TcpControl, NobodyLeavesABarrierBeforeAllAreIn) {
  std::atomic<int> in = 0;
  EXPECT_THAT(outcomes_of(4,
                          [&in](TcpControl& control) {
                            for (int round = 1; round <= 50; ++round) {
                              ++in;
                              control.barrier();
                              EXPECT_GE(in.load(), 4 * round);
                            }
                          }),
              Each(""));
}

TEST(TcpControl, TakesTextsLargerThanSocketsHold) {
  EXPECT_THAT(outcomes_of(3,
                          [](TcpControl& control) {
                            const auto text = [](int rank) {
                              return std::string(std::size_t{5} << 20, static_cast<char>('a' + rank));
                            };
                            const auto all = control.all_gather(text(control.rank()));
                            EXPECT_TRUE((all == std::vector{text(0), text(1), text(2)}));
                          }),
              Each(""));
}

TEST(TcpControl, OfOneRankNeedsNobody) {
  EXPECT_EQ(outcome_of([] {
              TcpControl control(Place{}, 1s);
              EXPECT_THAT(control.all_gather("me"), testing::ElementsAre("me"));
              EXPECT_EQ(control.broadcast("me"), "me");
              control.barrier();
            }),
            "");
}

TEST(TcpControl, ARankThatEndsIsNamedToAll) {
  const auto seen = outcomes_of(4, [](TcpControl& control) {
    control.barrier();
    if (control.rank() != 2) control.barrier();
  });
  const std::string told = "ToldByAnother: " + name_of(2) + " ended";
  EXPECT_THAT(seen, testing::ElementsAre("BenchError: " + name_of(2) + " ended", told, "", told));
}

TEST(TcpControl, Rank0ThatEndsIsNamed) {
  const auto seen = outcomes_of(3, [](TcpControl& control) {
    control.barrier();
    if (control.rank() != 0) control.barrier();
  });
  for (const std::size_t other : {1U, 2U})
    EXPECT_THAT(seen[other], StartsWith("BenchError: " + name_of(0) + " ended"));
}

TEST(TcpControl, ARankThatDoesNotAnswerIsNamedToAll) {
  std::atomic<bool> over = false;
  const auto seen = outcomes_of(
      3,
      [&over](TcpControl& control) {
        control.barrier();
        while (control.rank() == 1 && !over) std::this_thread::sleep_for(10ms);
        try {
          (void)control.all_gather("");
        } catch (...) {
          if (control.rank() == 0) over = true;
          throw;
        }
      },
      1s);
  // Rank 2 may have been as late on a busy machine.
  EXPECT_THAT(seen[0], StartsWith("BenchError: " + name_of(1)));
  EXPECT_THAT(seen[0], HasSubstr(" did not answer for 1 s"));
  const std::string told = "ToldByAnother" + seen[0].substr(std::string("BenchError").size());
  EXPECT_EQ(seen[1], told);
  EXPECT_EQ(seen[2], told);
}

constexpr const char* kHelloOf1 =
    "zplanh000000000011"
    "1 2 42 hand";

TEST(TcpControl, ARankThatReceivesNothingIsNamed) {
  const TestPort port;
  const auto first = [&port] {
    (void)TcpControl(port.place(0, 2), 500ms).broadcast(std::string(std::size_t{32} << 20, 'x'));
  };
  const auto second = [&port] {
    const Socket socket = port.connect_as(kHelloOf1);
    TestPort::say(socket, "zplanc000000000000");
    std::this_thread::sleep_for(2s);
  };
  EXPECT_EQ(outcomes_of({first, second})[0],
            "BenchError: rank 1 on host hand (pid 42) received nothing for 0.5 s");
}

TEST(TcpControl, GarbageInTheMiddleIsNamed) {
  const TestPort port;
  const auto second = [&port] {
    const Socket socket = port.connect_as(kHelloOf1);
    TestPort::say(socket, "hello, world");
    finish_sending(socket.fd(), Clock::now() + 30s);
  };
  EXPECT_EQ(outcomes_of({meets(port.place(0, 2)), second})[0],
            "BenchError: rank 1 on host hand (pid 42) sent what is no message of zplan-bench");
}

TEST(Meeting, RanksMayStartBeforeRank0) {
  TestPort port;
  Place first = port.place(0, 3);
  close(std::exchange(first.listen_fd, -1));
  { const Socket closed = std::move(port.listener); }  // nobody listens yet
  const auto late = [&first] {
    std::this_thread::sleep_for(300ms);
    TcpControl(first, 60s).barrier();
  };
  EXPECT_THAT(outcomes_of({late, meets(port.place(1, 3)), meets(port.place(2, 3))}), Each(""));
}

TEST(Meeting, TakesNamesAndBothFamilies) {
  for (const char* address : {"localhost", "127.0.0.1", "::1"}) {
    Socket listener;
    try {
      listener = listen_at(address, 0);
    } catch (const InputError&) {
      EXPECT_STREQ(address, "::1") << "only IPv6 may be absent from a machine";
      continue;
    }
    std::string reason;
    EXPECT_TRUE(connect_once(address, listening_port(listener.fd()), Clock::now() + 30s, reason).open())
        << reason;
  }
}

TEST(Meeting, StrangersAreSentAwayAndDoNotDisturb) {
  const TestPort port;
  std::vector<Socket> strangers;
  for (const std::string_view says : {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "SSH-2.0-x\r\n", "",
                                      "zplanh999999999999", "zplanhxxxxxxxxxxxx", "zplanh000000000001x"}) {
    strangers.push_back(port.connect());
    ASSERT_TRUE(strangers.back().open());
    TestPort::say(strangers.back(), says);
  }
  { const Socket gone = port.connect(); }
  EXPECT_THAT(outcomes_of({meets(port.place(0, 2)), meets(port.place(1, 2))}), Each(""));
}

TEST(Meeting, RanksThatDoNotConnectAreNamed) {
  const TestPort port;
  const auto seen = outcomes_of({meets(port.place(0, 4), 300ms), meets(port.place(2, 4))});
  EXPECT_EQ(seen[0], "BenchError: ranks 1, 3 of 4 did not connect to rank 0 on host " + host_name() +
                         " at port " + std::to_string(port.port) +
                         " within 0.3 s: start every rank, and let the port through firewalls");
  // On a busy machine rank 2 may itself have been too late to be told.
  const std::string told = "ToldByAnother" + seen[0].substr(std::string("BenchError").size());
  EXPECT_THAT(seen[1], testing::AnyOf(told, HasSubstr("rank 2")));
}

TEST(Meeting, WithoutRank0IsGivenUpInTime) {
  TestPort port;
  { const Socket closed = std::move(port.listener); }
  const auto seen = outcome_of(meets(port.place(1, 2), 200ms));
  EXPECT_THAT(
      seen, StartsWith("BenchError: rank 1 on host " + host_name() + " did not reach rank 0 at 127.0.0.1:"));
  EXPECT_THAT(seen, HasSubstr("within 0.2 s (Connection refused)"));
}

/// Rank 0 prints the reason; whoever was refused ends without a word.
void expect_told_to_both(const std::vector<std::string>& seen, const std::string& reason) {
  EXPECT_EQ(seen[0], "BenchError: " + reason);
  EXPECT_EQ(seen[1], "ToldByAnother: " + reason);
}

TEST(Meeting, AnotherNumberOfRanksIsToldToBoth) {
  const TestPort port;
  expect_told_to_both(outcomes_of({meets(port.place(0, 2)), meets(port.place(1, 3))}),
                      name_of(1) + " was started as one of 3 ranks, rank 0 on host " + host_name() +
                          " as one of 2: start all with one number of ranks");
}

TEST(Meeting, OneRankTwiceNamesBothProcesses) {
  const TestPort port;
  const auto seen = outcomes_of({meets(port.place(0, 3)), meets(port.place(1, 3)), meets(port.place(1, 3))});
  const std::string reason = "two processes have one rank: " + name_of(1) + " and " + name_of(1) +
                             "; give each process a rank of its own";
  expect_told_to_both(seen, reason);
  EXPECT_EQ(seen[2], seen[1]);
}

TEST(Meeting, ARankThatIsNotExpectedIsRefused) {
  const TestPort port;
  const auto impostor = [&port] {
    (void)port.connect_as(
        "zplanh000000000008"
        "7 2 42 x");
  };
  EXPECT_THAT(outcomes_of({meets(port.place(0, 2)), impostor})[0],
              HasSubstr("rank 7 on host x (pid 42) connected to rank 0 on host " + host_name()));
}

TEST(Meeting, APortInUseIsNamed) {
  const TestPort port;
  Place place = port.place(0, 2);
  close(std::exchange(place.listen_fd, -1));
  EXPECT_EQ(outcome_of(meets(place)), "InputError: --port " + std::to_string(port.port) +
                                          ": address in use by another process; accepted: a free port");
}

TEST(Meeting, AHostThatDoesNotResolveIsNamed) {
  for (const int rank : {0, 1})
    EXPECT_THAT(
        outcome_of(meets({.rank = rank, .size = 2, .master_address = "no host.invalid", .master_port = 1})),
        StartsWith("InputError: MASTER_ADDR: \"no host.invalid\" does not resolve ("));
}

TEST(Meeting, APlaceWithoutAnAddressIsNamed) {
  EXPECT_EQ(outcome_of(meets({.rank = 1, .size = 4, .launcher = Launcher::mpirun})),
            "InputError: MASTER_ADDR: not set, and mpirun does not tell where rank 0 of 4 is; accepted: name "
            "or address of the host of rank 0");
}

TEST(Meeting, AnotherProgramAtThePortIsNamed) {
  const TestPort port;
  const auto server = [&port] {
    ASSERT_TRUE(wait_for(port.listener.fd(), 1, Clock::now() + 30s));
    const Socket caller = accept_one(port.listener.fd());
    TestPort::say(caller, "220 mail.example ESMTP\r\n");
    finish_sending(caller.fd(), Clock::now() + 30s);
  };
  EXPECT_EQ(outcomes_of({meets(port.place(1, 2)), server})[0],
            "InputError: --port " + std::to_string(port.port) + ": what answers at 127.0.0.1:" +
                std::to_string(port.port) + " is not zplan; accepted: a port that is free on rank 0's host");
}

}  // namespace
}  // namespace zplan::bench
