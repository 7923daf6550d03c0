// How ranks find each other, and who else may be at the port.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "harness/net/hello.h"
#include "models/base/error.h"
#include "ranks.h"

namespace zplan::bench {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

std::function<void()> meets(TcpOptions options) {
  return [options = std::move(options)] { const TcpControl control(options); };
}

/// A connection to the port, as of any program.
Socket stranger_at(const TestPort& port) {
  std::string reason;
  return connect_once({.address = "127.0.0.1", .port = port.port}, Clock::now() + 30s, reason);
}

TEST(Meeting, RanksMayComeBeforeRank0) {
  TestPort port;
  TcpOptions first = options_at(port, 0, 3);
  const int listener = std::exchange(first.listen_fd, -1);
  { const Socket closed(listener); }  // nobody listens yet
  const auto late = [first] {
    std::this_thread::sleep_for(300ms);
    TcpControl control(first);
    control.barrier();
  };
  const auto early = [&port](int rank) {
    return [options = options_at(port, rank, 3)] { TcpControl(options).barrier(); };
  };
  EXPECT_THAT(outcomes_of({late, early(1), early(2)}), testing::Each(""));
}

TEST(Meeting, TakesNamesAndBothFamilies) {
  for (const char* address : {"localhost", "127.0.0.1", "::1"}) {
    std::vector<Socket> listeners;
    try {
      listeners = listen_at({.address = address, .port = 0});
    } catch (const InputError&) {
      EXPECT_STREQ(address, "::1") << "only IPv6 may be absent from a machine";
      continue;
    }
    std::string reason;
    const int port = listening_port(listeners.front().fd());
    EXPECT_TRUE(connect_once({.address = address, .port = port}, Clock::now() + 30s, reason).open())
        << reason;
  }
}

TEST(Meeting, StrangersAreSentAwayAndDoNotDisturb) {
  TestPort port;
  std::vector<Socket> strangers;
  for (const std::string_view says :
       {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", "ZPBN", "\0\0\0\0\0\0\0\0\0\0"}) {
    strangers.push_back(stranger_at(port));
    ASSERT_TRUE(strangers.back().open());
    (void)send_all(strangers.back().fd(), says, Clock::now() + 30s);
  }
  // One that announces more than a hello may have, one whose hello is none, one that is gone at once.
  strangers.push_back(stranger_at(port));
  (void)send_all(strangers.back().fd(), encode({FrameKind::hello, 1, std::string(100'000, 'x')}),
                 Clock::now() + 30s);
  strangers.push_back(stranger_at(port));
  (void)send_all(strangers.back().fd(), encode({FrameKind::hello, 1, "{\"rank\":1}"}), Clock::now() + 30s);
  { const Socket gone = stranger_at(port); }
  EXPECT_THAT(outcomes_of({meets(options_at(port, 0, 2)), meets(options_at(port, 1, 2))}), testing::Each(""));
}

TEST(Meeting, MoreStrangersThanAreHeardAtOnceOnlyDelay) {
  TestPort port;
  std::vector<Socket> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(stranger_at(port));
    (void)send_all(strangers.back().fd(), "SSH-2.0-x\r\n", Clock::now() + 30s);
  }
  EXPECT_THAT(outcomes_of({meets(options_at(port, 0, 2)), meets(options_at(port, 1, 2))}), testing::Each(""));
}

TEST(Meeting, RanksThatDoNotComeAreNamed) {
  TestPort port;
  TcpOptions first = options_at(port, 0, 4);
  first.start_timeout = 300ms;
  const auto seen = outcomes_of({meets(first), meets(options_at(port, 2, 4))});
  EXPECT_EQ(seen[0], "BenchError: ranks 1, 3 of 4 did not come to rank 0 on host h0 at port " +
                         std::to_string(port.port) +
                         " within 0.3 s: start every rank, and let the port through firewalls");
  // On a busy machine rank 2 may itself have been too late to hear of it.
  const std::string told = "ToldByAnother" + seen[0].substr(std::string("BenchError").size());
  EXPECT_THAT(seen[1], testing::AnyOf(told, StartsWith("BenchError: rank 2 on host h2 did not reach")));
}

TEST(Meeting, WithoutRank0IsGivenUpInTime) {
  TestPort port;
  TcpOptions options = options_at(port, 1, 2);
  options.start_timeout = 200ms;
  { const Socket closed(port.listener.release()); }
  const auto seen = outcome_of(meets(options));
  EXPECT_THAT(seen, StartsWith("BenchError: rank 1 on host h1 did not reach rank 0 at 127.0.0.1:"));
  EXPECT_THAT(seen, HasSubstr("within 0.2 s (Connection refused)"));
}

TEST(Meeting, AnotherNumberOfRanksIsToldToBoth) {
  TestPort port;
  const auto seen = outcomes_of({meets(options_at(port, 0, 2)), meets(options_at(port, 1, 3))});
  EXPECT_THAT(seen[0], StartsWith("BenchError: rank 1 on host h1 (pid "));
  EXPECT_THAT(seen[0], HasSubstr("was started as one of 3 ranks, rank 0 on host h0 as one of 2"));
  EXPECT_EQ(seen[1], seen[0]);
}

TEST(Meeting, AnotherVersionIsToldToBoth) {
  TestPort port;
  TcpOptions other = options_at(port, 1, 2);
  other.version = "9.9.9";
  const auto seen = outcomes_of({meets(options_at(port, 0, 2)), meets(other)});
  EXPECT_THAT(seen[0], HasSubstr("runs zplan 9.9.9"));
  EXPECT_EQ(seen[1], seen[0]);
}

TEST(Meeting, OneRankTwiceNamesBothProcesses) {
  TestPort port;
  TcpOptions again = options_at(port, 1, 3);
  again.host = "other";
  const auto seen = outcomes_of({meets(options_at(port, 0, 3)), meets(options_at(port, 1, 3)), meets(again)});
  EXPECT_THAT(seen[0], StartsWith("BenchError: rank 1 is there twice: on host "));
  EXPECT_THAT(seen[0], HasSubstr("on host h1 (pid "));
  EXPECT_THAT(seen[0], HasSubstr("on host other (pid "));
  const std::string text = seen[0].substr(std::string("BenchError").size());
  EXPECT_THAT(std::vector({seen[1], seen[2]}),
              testing::UnorderedElementsAre("BenchError" + text, "ToldByAnother" + text));
}

TEST(Meeting, AHelloOfNoRankOfTheRunIsRefused) {
  TestPort port;
  const auto impostor = [&port] {
    const Socket socket = stranger_at(port);
    const std::string hello =
        encode(to_frame({.rank = 7, .size = 2, .host = "x", .version = std::string(version())}));
    (void)send_all(socket.fd(), hello, Clock::now() + 30s);
    (void)wait_for(socket.fd(), 1, Clock::now() + 30s);
  };
  EXPECT_THAT(outcomes_of({meets(options_at(port, 0, 2)), impostor})[0],
              HasSubstr("rank 7 on host x (pid 0) came to rank 0 on host h0"));
}

TEST(Meeting, APortInUseIsNamed) {
  const TestPort port;
  const TcpOptions options{.rank = 0, .size = 2, .meeting = {.address = "127.0.0.1", .port = port.port}};
  EXPECT_EQ(outcome_of(meets(options)), "InputError: --port " + std::to_string(port.port) +
                                            ": address in use by another process; accepted: a free port");
}

TEST(Meeting, AHostThatDoesNotResolveIsNamed) {
  for (const int rank : {0, 1}) {
    const TcpOptions options{.rank = rank, .size = 2, .meeting = {.address = "no host.invalid", .port = 1}};
    EXPECT_THAT(outcome_of(meets(options)),
                StartsWith("InputError: MASTER_ADDR: \"no host.invalid\" does not resolve ("));
  }
}

TEST(Meeting, AnotherProgramAtThePortIsNamed) {
  TestPort port;
  const auto server = [&port] {
    ASSERT_TRUE(wait_for(port.listener.fd(), 1, Clock::now() + 30s));
    const Socket caller = accept_one(port.listener.fd());
    (void)send_all(caller.fd(), "220 mail.example ESMTP\r\n", Clock::now() + 30s);
    finish_sending(caller.fd(), Clock::now() + 30s);
  };
  const TcpOptions options{.rank = 1, .size = 2, .meeting = {.address = "127.0.0.1", .port = port.port}};
  EXPECT_EQ(outcomes_of({meets(options), server})[0],
            "InputError: --port " + std::to_string(port.port) + ": what answers at 127.0.0.1:" +
                std::to_string(port.port) + " is not zplan; accepted: a port that is free on rank 0's host");
}

TEST(Meeting, ARankThatEndsBeforeAllHaveComeIsNamed) {
  TestPort port;
  const auto gone = [&port] {
    const Socket socket = stranger_at(port);
    const Hello hello{.rank = 1, .size = 3, .pid = 42, .host = "x", .version = std::string(version())};
    (void)send_all(socket.fd(), encode(to_frame(hello)), Clock::now() + 30s);
  };
  EXPECT_EQ(outcomes_of({meets(options_at(port, 0, 3)), gone})[0],
            "BenchError: rank 1 on host x (pid 42) ended before all ranks had come");
}

TEST(Meeting, ASocketThatDoesNotListenIsRefused) {
  TcpOptions options{.rank = 0, .size = 2};
  options.listen_fd = 0;
  EXPECT_THAT(outcome_of(meets(options)),
              StartsWith("InputError: ZPLAN_LISTEN_FD: 0 is not a listening socket"));
}

}  // namespace
}  // namespace zplan::bench
