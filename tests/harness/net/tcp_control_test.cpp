// Calls of Control over real connections, and what every rank hears when one of them fails.

#include "harness/net/tcp_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "harness/net/hello.h"
#include "ranks.h"

namespace zplan::bench {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

/// A rank by hand: says hello, waits for the welcome.
Socket by_hand(const TestPort& port, int rank, int size) {
  std::string reason;
  Socket socket = connect_once({.address = "127.0.0.1", .port = port.port}, Clock::now() + 30s, reason);
  const Hello hello{.rank = rank, .size = size, .pid = 42, .host = "hand", .version = std::string(version())};
  (void)send_all(socket.fd(), encode(to_frame(hello)), Clock::now() + 30s);
  FrameReader reader(1 << 20);
  while (reader.read(socket.fd()) == Received::part) (void)wait_for(socket.fd(), 1, Clock::now() + 30s);
  return socket;
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
                            const std::string mine = "of " + std::to_string(control.rank());
                            EXPECT_EQ(control.broadcast(mine), "of 0");
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
                            const std::string mine(std::size_t{5} << 20,
                                                   static_cast<char>('a' + control.rank()));
                            const auto all = control.all_gather(mine);
                            ASSERT_EQ(all.size(), 3U);
                            for (std::size_t i = 0; i < 3; ++i)
                              EXPECT_TRUE(all[i] == std::string(mine.size(), static_cast<char>('a' + i)));
                          }),
              Each(""));
}

TEST(TcpControl, OfOneRankNeedsNobody) {
  EXPECT_EQ(outcome_of([] {
              TcpControl control({.rank = 0, .size = 1});
              EXPECT_THAT(control.all_gather("me"), testing::ElementsAre("me"));
              EXPECT_EQ(control.broadcast("me"), "me");
              control.barrier();
            }),
            "");
}

TEST(TcpControl, ARankOutsideIsRefused) {
  EXPECT_EQ(outcome_of([] { const TcpControl control({.rank = 3, .size = 2}); }),
            "InputError: rank: 3 of 2 ranks; accepted: 0 to 1");
}

TEST(TcpControl, OneThatFailsEndsAllWithItsReason) {
  for (const int failing : {0, 2}) {
    const auto seen = outcomes_of(4, [failing](TcpControl& control) {
      control.barrier();
      if (control.rank() == failing) {
        control.fail("no memory on the card");
        control.barrier();
      }
      for (;;) (void)control.all_gather("go on");
    });
    EXPECT_THAT(seen, Each("ToldByAnother: no memory on the card")) << failing;
  }
}

TEST(TcpControl, AFailureReachesRanksThatOnlyListen) {
  const auto seen = outcomes_of(3, [](TcpControl& control) {
    if (control.rank() == 1) {
      control.fail("broken");
      throw BenchError("broken");
    }
    if (control.rank() == 2) (void)control.broadcast("");
    control.barrier();
  });
  EXPECT_THAT(seen,
              testing::ElementsAre("ToldByAnother: broken", "BenchError: broken", "ToldByAnother: broken"));
}

bool seen_in_time(const TcpControl& control, const std::function<bool(const std::string&)>& expected) {
  const Deadline deadline = Clock::now() + 30s;
  while (!expected(control.failure_seen()))
    if (std::this_thread::sleep_for(5ms); Clock::now() >= deadline) return false;
  return true;
}

TEST(TcpControl, AFailureIsSeenBesideACall) {
  const auto seen = outcomes_of(3, [](TcpControl& control) {
    control.barrier();
    if (control.rank() == 1) control.fail("no memory");
    EXPECT_TRUE(control.rank() != 0 ||
                seen_in_time(control, [](const std::string& text) { return text == "no memory"; }));
    control.barrier();
  });
  EXPECT_THAT(seen, Each("ToldByAnother: no memory"));
}

TEST(TcpControl, DataIsNoFailureAndIsLeftThere) {
  EXPECT_THAT(outcomes_of(2,
                          [](TcpControl& control) {
                            control.barrier();
                            if (control.rank() == 0) {
                              for (int i = 0; i < 20; ++i) {
                                EXPECT_EQ(control.failure_seen(), "");
                                std::this_thread::sleep_for(2ms);
                              }
                            }
                            EXPECT_THAT(control.all_gather("x"), testing::ElementsAre("x", "x"));
                            control.barrier();
                          }),
              Each(""));
}

TEST(TcpControl, ARankThatIsGoneIsSeenBesideACall) {
  const auto seen = outcomes_of(2, [](TcpControl& control) {
    control.barrier();
    if (control.rank() == 1) return;
    EXPECT_TRUE(seen_in_time(
        control, [](const std::string& text) { return text.starts_with("rank 1 on host h1 (pid "); }));
  });
  EXPECT_THAT(seen, Each(""));
}

TEST(TcpControl, ARankThatEndsIsNamedToAll) {
  const auto seen = outcomes_of(4, [](TcpControl& control) {
    control.barrier();
    if (control.rank() != 2) control.barrier();
  });
  EXPECT_THAT(seen[0], StartsWith("BenchError: rank 2 on host h2 (pid "));
  EXPECT_THAT(seen[0], HasSubstr(") ended"));
  EXPECT_EQ(seen[2], "");
  for (const std::size_t told : {1U, 3U})
    EXPECT_EQ(seen[told], "ToldByAnother" + seen[0].substr(std::string("BenchError").size()));
}

TEST(TcpControl, Rank0ThatEndsIsNamed) {
  const auto seen = outcomes_of(3, [](TcpControl& control) {
    control.barrier();
    if (control.rank() != 0) control.barrier();
  });
  for (const std::size_t other : {1U, 2U}) {
    EXPECT_THAT(seen[other], StartsWith("BenchError: rank 0 on host h0 (pid "));
    EXPECT_THAT(seen[other], HasSubstr(") ended"));
  }
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
      [](TcpOptions& options) { options.timeout = 1s; });
  // Rank 2 may have been as late on a busy machine.
  EXPECT_THAT(seen[0], StartsWith("BenchError: rank 1 on host h1"));
  EXPECT_THAT(seen[0], HasSubstr(" did not answer for 1 s in all_gather"));
  const std::string told = "ToldByAnother" + seen[0].substr(std::string("BenchError").size());
  EXPECT_EQ(seen[1], told);
  EXPECT_EQ(seen[2], told);
}

TEST(TcpControl, ARankThatTakesNothingIsNamed) {
  TestPort port;
  std::atomic<bool> over = false;
  TcpOptions options = options_at(port, 0, 2);
  options.timeout = 500ms;
  const auto first = [&] {
    TcpControl control(options);
    const std::string much(std::size_t{32} << 20, 'x');
    try {
      (void)control.broadcast(much);
    } catch (...) {
      over = true;
      throw;
    }
  };
  const auto second = [&] {
    const Socket socket = by_hand(port, 1, 2);
    while (!over) std::this_thread::sleep_for(10ms);
  };
  EXPECT_EQ(outcomes_of({first, second})[0], "BenchError: rank 1 on host hand took nothing for 0.5 s");
}

TEST(TcpControl, RanksInDifferentCallsAreNamed) {
  const auto seen = outcomes_of(2, [](TcpControl& control) {
    if (control.rank() == 0)
      control.barrier();
    else
      (void)control.all_gather("");
  });
  EXPECT_EQ(seen[0],
            "BenchError: rank 1 on host h1 is in all_gather (call 1), rank 0 in barrier (call 1): ranks do "
            "not do the same");
  EXPECT_EQ(seen[1], "ToldByAnother" + seen[0].substr(std::string("BenchError").size()));
}

TEST(TcpControl, ATextOverTheLimitEndsAllAndIsNamed) {
  for (const int large : {0, 1}) {
    const auto seen = outcomes_of(
        2,
        [large](TcpControl& control) {
          (void)control.all_gather(control.rank() == large ? std::string(101, 'x') : std::string());
        },
        [](TcpOptions& options) { options.message_limit = Bytes(100); });
    const std::string text = ": rank " + std::to_string(large) + " on host h" + std::to_string(large) +
                             " has 101 bytes for all_gather, where 100 are the most";
    EXPECT_EQ(seen[static_cast<std::size_t>(large)], "BenchError" + text);
    EXPECT_EQ(seen[static_cast<std::size_t>(1 - large)], "ToldByAnother" + text);
  }
}

TEST(TcpControl, GarbageInTheMiddleIsNamed) {
  for (const std::string& garbage :
       {std::string("hello, world"), encode({FrameKind::barrier, 1, std::string(500, 'x')})}) {
    TestPort port;
    TcpOptions options = options_at(port, 0, 2);
    options.message_limit = Bytes(100);
    const auto first = [options] { TcpControl(options).barrier(); };
    const auto second = [&port, &garbage] {
      const Socket socket = by_hand(port, 1, 2);
      (void)send_all(socket.fd(), garbage, Clock::now() + 30s);
      finish_sending(socket.fd(), Clock::now() + 30s);
    };
    EXPECT_EQ(outcomes_of({first, second})[0],
              "BenchError: rank 1 on host hand sent what is no message of this run");
  }
}

TEST(TcpControl, OptionsFollowThePlace) {
  const TcpOptions options = tcp_options({.rank = 2,
                                          .size = 4,
                                          .launcher = Launcher::torchrun,
                                          .master_address = "gpu01",
                                          .master_port = 29400});
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.size, 4);
  EXPECT_EQ(options.meeting.address, "gpu01");
  EXPECT_EQ(options.meeting.port, 29400);
  EXPECT_EQ(outcome_of([] { (void)tcp_options({.rank = 1, .size = 4, .launcher = Launcher::mpirun}); }),
            "InputError: MASTER_ADDR: not set, and mpirun does not tell where rank 0 of 4 is; accepted: name "
            "or address of "
            "the host of rank 0");
}

TEST(TcpControl, PlacesOnHostsFollowNames) {
  const auto host = [](int rank) { return rank % 2 == 0 ? std::string("even") : std::string("odd"); };
  EXPECT_THAT(outcomes_of(5,
                          [&host](TcpControl& control) {
                            const LocalPlace place = place_on_host(control, host(control.rank()));
                            EXPECT_EQ(place.rank, control.rank() / 2);
                            EXPECT_EQ(place.size, control.rank() % 2 == 0 ? 3 : 2);
                          }),
              Each(""));
}

}  // namespace
}  // namespace zplan::bench
