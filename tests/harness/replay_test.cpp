#include "harness/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/loopback_backend.h"

namespace zplan::bench {
namespace {

PlannedCall call(Operation operation, std::int64_t elements, std::int64_t times, GroupKind kind,
                 std::int64_t size) {
  return {.work = {.operation = operation, .dtype = DataType::bfloat16, .elements = elements},
          .groups = {.kind = kind, .size = size, .tensor = 2},
          .times = times,
          .compute = Seconds(0.25),
          .group = std::string(to_name(kind)),
          .phase = "forward",
          .dtype = "bfloat16",
          .purpose = "layer weights"};
}

PlannedStep step() {
  return {.plan = {{"plan", "zero3"}},
          .ranks = 4,
          .device_memory = kMiB,
          .calls = {call(Operation::all_gather, 64, 2, GroupKind::data, 2),
                    call(Operation::all_reduce, 30, 1, GroupKind::tensor, 2),
                    call(Operation::all_gather, 128, 1, GroupKind::data, 2)}};
}

Json replayed(const std::vector<std::string>& arguments, Loopback& shared, bool& right) {
  Json document;
  const Options options = parse_options(arguments);
  const PlannedStep planned = step();
  run_ranks(4, shared, [&](Backend& backend) {
    bool mine_right = false;
    Json mine =
        with_session(options, backend, [&](Session& session) { mine_right = replay(session, planned); });
    if (backend.control().rank() == 0) document = std::move(mine), right = mine_right;
  });
  return document["replay"];
}

TEST(Replay, IssuesTheStepCallForCallInItsOrder) {
  Loopback shared(4);
  bool right = false;
  const Json found = replayed({"--plan", "p", "--steps", "3"}, shared, right);
  EXPECT_TRUE(right);
  // Three kinds are checked, then a step is for warming up, then three are timed.
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 3; i < 3 + 4 * 4; ++i) sizes.push_back(shared.issued.at(i).elements);
  EXPECT_THAT(sizes,
              testing::ElementsAre(64, 64, 30, 128, 64, 64, 30, 128, 64, 64, 30, 128, 64, 64, 30, 128));
  EXPECT_EQ(found["steps"].size(), 3U);
  EXPECT_EQ(found["every_rank_alike"], true);
  EXPECT_TRUE(found["device_memory"].is_null());
  EXPECT_TRUE(shared.computed.empty());
}

TEST(Replay, CountsByKindWhatOneStepIssued) {
  Loopback shared(4);
  bool right = false;
  const Json calls = replayed({"--plan", "p", "--steps", "2"}, shared, right)["calls"];
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0]["operation"], "all_gather");
  EXPECT_EQ(calls[0]["count"], 3);
  EXPECT_EQ(calls[0]["elements"], 256);
  EXPECT_EQ(calls[0]["bytes"], 512);
  EXPECT_EQ(calls[1]["group"], "tensor");
  EXPECT_EQ(calls[1]["count"], 1);
  EXPECT_EQ(calls[1]["bytes"], 60);
  // The slowest rank's i-th call takes 4(i + 1) us: 6 in the median of two.
  EXPECT_NEAR(calls[0]["seconds"].get<double>(), 3 * 6e-6, 1e-12);
}

TEST(Replay, ComputesBetweenTheCallsWhereItIsAskedTo) {
  Loopback shared(4);
  bool right = false;
  const Json found = replayed({"--plan", "p", "--steps", "1", "--compute"}, shared, right);
  EXPECT_EQ(found["compute_stand_in"], true);
  EXPECT_EQ(shared.computed, std::vector<double>(8, 0.25));  // four calls, in two steps
}

TEST(Replay, TakesThePlansMemoryOrSaysThatItIsNotThere) {
  Loopback enough(4), little(4);
  bool right = false;
  EXPECT_EQ(replayed({"--plan", "p", "--allocate"}, enough, right)["device_memory"],
            (Json{{"planned_bytes", 1 << 20}, {"allocated_bytes", 1 << 20}, {"holds", true}}));
  EXPECT_TRUE(right);
  little.memory = kKiB * 100;
  EXPECT_EQ(replayed({"--plan", "p", "--allocate"}, little, right)["device_memory"]["holds"], false);
  EXPECT_FALSE(right);
}

TEST(Replay, AWrongResultFails) {
  Loopback shared(4);
  shared.corrupts = 1;
  bool right = true;
  (void)replayed({"--plan", "p"}, shared, right);
  EXPECT_FALSE(right);
}

}  // namespace
}  // namespace zplan::bench
