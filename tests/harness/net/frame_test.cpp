// Messages in pieces, and bytes that are none.

#include "harness/net/frame.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "harness/net/hello.h"
#include "harness/net/socket.h"

namespace zplan::bench {
namespace {

/// Two ends of a connection.
struct Pair {
  Pair() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    near = Socket(fds[0]), far = Socket(fds[1]);
  }
  void say(std::string_view bytes) const {
    EXPECT_EQ(send_all(near.fd(), bytes, Clock::now() + std::chrono::seconds(30)), "");
  }
  Socket near, far;
};

const Frame kFrame{FrameKind::all_gather, 0x0102030405060708U, std::string("a\0b", 3)};

TEST(Frame, IsReadWhole) {
  Pair pair;
  FrameReader reader(100);
  pair.say(encode(kFrame) + encode({FrameKind::barrier, 9, ""}));
  ASSERT_EQ(reader.read(pair.far.fd()), Received::whole);
  EXPECT_EQ(reader.take(), kFrame);
  ASSERT_EQ(reader.read(pair.far.fd()), Received::whole);
  EXPECT_EQ(reader.take(), (Frame{FrameKind::barrier, 9, ""}));
  EXPECT_EQ(reader.read(pair.far.fd()), Received::part);
}

TEST(Frame, IsReadByteByByte) {
  Pair pair;
  FrameReader reader(100);
  const std::string bytes = encode(kFrame);
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    pair.say(bytes.substr(i, 1));
    ASSERT_EQ(reader.read(pair.far.fd()), Received::part) << i;
  }
  pair.say(bytes.substr(bytes.size() - 1));
  ASSERT_EQ(reader.read(pair.far.fd()), Received::whole);
  EXPECT_EQ(reader.take(), kFrame);
}

TEST(Frame, OfSomebodyElseIsKnownFromItsFirstByte) {
  for (const std::string bytes : {"G", "ZPBX", "SSH-2.0-OpenSSH_9.2\r\n", "GET / HTTP/1.1\r\n\r\n"}) {
    Pair pair;
    FrameReader reader(100);
    pair.say(bytes);
    EXPECT_EQ(reader.read(pair.far.fd()), Received::not_ours) << bytes;
  }
  Pair pair;
  FrameReader reader(100);
  std::string bytes = encode(kFrame);
  bytes[7] = 77;  // no such kind
  pair.say(bytes);
  EXPECT_EQ(reader.read(pair.far.fd()), Received::not_ours);
}

TEST(Frame, LongerThanTheLimitIsRefusedBeforeItComes) {
  Pair pair;
  FrameReader reader(2);
  pair.say(encode(kFrame).substr(0, 24));
  EXPECT_EQ(reader.read(pair.far.fd()), Received::too_long);
  EXPECT_EQ(reader.announced(), 3U);
}

TEST(Frame, ThatBreaksOffIsClosed) {
  Pair pair;
  FrameReader reader(100);
  pair.say(encode(kFrame).substr(0, 25));
  { const Socket dropped = std::move(pair.near); }
  ASSERT_FALSE(pair.near.open());
  EXPECT_EQ(reader.read(pair.far.fd()), Received::closed);
}

TEST(Packed, ComesBack) {
  const std::vector<std::string> texts{"", "one", std::string(1000, 'x'), ""};
  EXPECT_EQ(unpack(pack(texts), 4), texts);
  EXPECT_EQ(unpack(pack({}), 0), std::vector<std::string>{});
}

TEST(Packed, OfAnotherCountOrCutIsNothing) {
  const std::string packed = pack({"one", "two"});
  EXPECT_EQ(unpack(packed, 1), std::nullopt);
  EXPECT_EQ(unpack(packed, 3), std::nullopt);
  for (std::size_t size = 0; size < packed.size(); ++size)
    EXPECT_EQ(unpack(packed.substr(0, size), 2), std::nullopt);
}

TEST(Hello, IsReadBackAndNothingElseIs) {
  const Hello hello{.rank = 2, .size = 4, .pid = 77, .host = "gpu\"01", .version = "1.2.3"};
  const auto back = read_hello(to_frame(hello));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rank, 2);
  EXPECT_EQ(back->host, "gpu\"01");
  EXPECT_EQ(why_refused({.rank = 0, .size = 4, .version = "1.2.3"}, *back), "");
  for (const char* text : {"", "{", "[]", "{}", R"({"rank":"x","size":4,"pid":1,"host":"a","version":"b"})",
                           R"({"rank":-1,"size":4,"pid":1,"host":"a","version":"b"})"})
    EXPECT_FALSE(read_hello({FrameKind::hello, kProtocol, text})) << text;
  EXPECT_FALSE(read_hello({FrameKind::barrier, kProtocol, to_frame(hello).text}));
}

TEST(Hello, OfAnotherRunIsRefusedWithBothSidesNamed) {
  const Hello rank_0{.size = 4, .pid = 10, .host = "a", .version = "1.0.0"};
  Hello caller{.rank = 1, .size = 4, .pid = 20, .host = "b", .version = "2.0.0"};
  EXPECT_EQ(why_refused(rank_0, caller),
            "rank 1 on host b (pid 20) runs zplan 2.0.0 (protocol 1), rank 0 on host a zplan 1.0.0 (protocol "
            "1): the same "
            "version is needed on every host");
  caller.version = "1.0.0", caller.size = 8;
  EXPECT_EQ(why_refused(rank_0, caller),
            "rank 1 on host b (pid 20) was started as one of 8 ranks, rank 0 on host a as one of 4: start "
            "all with one "
            "number of ranks");
  caller.size = 4, caller.rank = 0;
  EXPECT_EQ(why_refused(rank_0, caller),
            "rank 0 on host b (pid 20) came to rank 0 on host a (pid 10), where ranks 1 to 3 are awaited: "
            "give each "
            "process a rank of its own");
  caller.rank = 4;
  EXPECT_NE(why_refused(rank_0, caller), "");
}

}  // namespace
}  // namespace zplan::bench
