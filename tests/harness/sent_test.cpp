#include "harness/sent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "harness/measure.h"
#include "tests/harness/loopback_backend.h"

namespace zplan::bench {
namespace {

TEST(Sent, IsWhatGrew) {
  EXPECT_EQ(grown({{"eth0", 5}, {"lo", 7}, {"gone", 1}}, {{"eth0", 15}, {"lo", 7}, {"came", 9}}),
            (SentBytes{{"eth0", 10}}));
  EXPECT_EQ(grown({{"reset", 5}}, {{"reset", 4}}), SentBytes{});
}

std::optional<SentBytes> metered(const std::vector<std::string>& hosts,
                                 const std::function<SentCounter(int rank)>& counter) {
  Loopback shared(static_cast<int>(hosts.size()));
  std::optional<SentBytes> total;
  run_ranks(static_cast<int>(hosts.size()), shared, [&](Backend& backend) {
    const int rank = backend.control().rank();
    SentMeter meter(backend.control(), hosts, counter(rank));
    const std::optional<SentBytes> mine = meter.total();
    if (rank == 0) total = mine;
  });
  return total;
}

/// A counter of rank r that grows by 10·(r + 1) with every look.
SentCounter growing(int rank) {
  return [rank, looks = 0]() mutable {
    ++looks;
    return SentBytes{{"eth0", 1000 + 10 * looks * (rank + 1)}, {"lo", 5}};
  };
}

TEST(Sent, IsReadOncePerHostAndAddedUp) {
  EXPECT_EQ(metered({"a", "a", "b", "b"}, growing), (SentBytes{{"eth0", 10 + 30}}));
  EXPECT_EQ(metered({"a", "a", "a", "a"}, growing), (SentBytes{{"eth0", 10}}));
}

TEST(Sent, IsUnknownWhereOneHostCountsNothing) {
  const auto first_alone = [](int rank) { return rank == 0 ? growing(rank) : SentCounter{}; };
  EXPECT_EQ(metered({"a", "b"}, first_alone), std::nullopt);
  EXPECT_EQ(metered({"a", "a"}, first_alone), (SentBytes{{"eth0", 10}}));
}

/// The first document of a sweep of two sizes, with what was issued when the counter was read.
Json swept(SentCounter sent, Loopback& shared) {
  const Options options =
      parse_options({"--op", "all_reduce", "-b", "64", "-e", "128", "-n", "7", "-w", "2", "--place", "out"});
  Json document;
  run_ranks(2, shared, [&](Backend& backend) {
    Json mine = with_session(options, backend, [&](Session& session) {
      if (session.is_first()) session.sent = sent;
      if (!session.is_first() && sent) session.sent = [] { return SentBytes{}; };  // never asked
      (void)sweep(session, [](const Measurement&) {});
    });
    if (backend.control().rank() == 0) document = std::move(mine);
  });
  return document;
}

// 7 timed calls lie between two looks: those that check and warm up lie outside.
TEST(Sent, CoversTheTimedCallsAlone) {
  Loopback shared(2);
  const Json found = swept(
      [&shared] {
        const std::lock_guard lock(shared.mutex);
        return SentBytes{{"eth0", 1 + static_cast<std::int64_t>(shared.issued.size())}};
      },
      shared);
  ASSERT_EQ(found["collectives"].size(), 2U);
  for (const Json& each : found["collectives"]) {
    EXPECT_EQ(each["sent_bytes"], (Json{{"eth0", 7}}));
    EXPECT_EQ(each["sent_calls"], 7);
  }
}

TEST(Sent, HasNoKeyWhereNothingCounts) {
  Loopback shared(2);
  const Json found = swept({}, shared);
  for (const Json& each : found["collectives"]) {
    EXPECT_FALSE(each.contains("sent_bytes"));
    EXPECT_FALSE(each.contains("sent_calls"));
  }
}

}  // namespace
}  // namespace zplan::bench
