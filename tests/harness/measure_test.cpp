#include "harness/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/loopback_backend.h"

namespace zplan::bench {
namespace {

Json swept(const std::vector<std::string>& arguments, int ranks, Loopback& shared, bool* right = nullptr,
           std::string* told = nullptr) {
  const Options options = parse_options(arguments);
  Json document;
  run_ranks(ranks, shared, [&](Backend& backend) {
    bool all_right = false;
    std::string line;
    Json mine = with_session(options, backend, [&](Session& session) {
      session.progress = [&line](const std::string& text) { line += text + "\n"; };
      all_right = sweep(session, [](const Measurement&) {});
    });
    if (backend.control().rank() != 0) return;
    document = std::move(mine);
    if (right != nullptr) *right = all_right;
    if (told != nullptr) *told = line;
  });
  return document;
}

TEST(Sweep, MeasuresEverySizeTypePlaceAndGroup) {
  Loopback shared(4);
  const Json found = swept({"--op", "all_reduce,all_to_all", "-d", "float32,int8", "-b", "64", "-e", "256",
                            "-f", "4", "--groups", "world,tensor,data", "--tp", "2"},
                           4, shared);
  // all_to_all has no in-place form: 2 sizes x 2 types x 3 groups x (2 + 1) forms.
  EXPECT_EQ(found["collectives"].size(), 36U);
  for (const Json& each : found["collectives"]) {
    EXPECT_EQ(each["wrong_elements"], 0);
    EXPECT_GT(each["checked_elements"], 0);
    EXPECT_EQ(each["samples"].size(), 20U);
    EXPECT_EQ(each["group"]["at_once"], 4 / each["group"]["size"].get<int>());
  }
}

TEST(Sweep, AnIterationTakesWhatItsSlowestRankTakes) {
  Loopback shared(3);
  const Json found =
      swept({"--op", "all_reduce", "-b", "96", "-e", "96", "-n", "4", "--place", "out"}, 3, shared);
  const Json& one = found["collectives"].at(0);
  // Rank r's i-th call takes (i + 1)(r + 1) us.
  EXPECT_THAT(one["samples"].get<std::vector<double>>(),
              testing::Pointwise(testing::DoubleNear(1e-12), {3e-6, 6e-6, 9e-6, 12e-6}));
  EXPECT_NEAR(one["seconds"]["median"].get<double>(), 7.5e-6, 1e-12);
  EXPECT_NEAR(one["mean_over_ranks"].get<double>(), 5e-6, 1e-12);
  EXPECT_NEAR(one["algorithm_bandwidth"].get<double>(), 96 / 7.5e-6, 1);
  EXPECT_NEAR(one["bus_bandwidth"].get<double>(), 96 / 7.5e-6 * 4 / 3, 1);
}

TEST(Sweep, AWrongResultNamesRankElementAndCollective) {
  Loopback shared(4);
  shared.corrupts = 2;
  bool right = true;
  std::string told;
  const Json found =
      swept({"--op", "all_gather", "-b", "64", "-e", "64", "--place", "out"}, 4, shared, &right, &told);
  EXPECT_FALSE(right);
  EXPECT_EQ(found["collectives"].at(0)["wrong_elements"], 2);
  EXPECT_THAT(told,
              testing::HasSubstr("all_gather of 16 float32 (64 B) in the world of 4: rank 2 has 1 wrong "
                                 "elements, the first is element 2: "));
}

TEST(Sweep, WithoutMemoryForTheLargestMessageSmallerOnesAreMeasuredAndItSaysSo) {
  Loopback shared(2);
  shared.memory = kMiB;
  const Json found = swept({"--op", "all_reduce", "-b", "1M", "-e", "4M", "--place", "out"}, 2, shared);
  EXPECT_EQ(found["collectives"].size(), 1U);
  EXPECT_THAT(found["notes"].at(0).get<std::string>(), testing::HasSubstr("1.00 MiB instead of 4.00 MiB"));
}

TEST(Sweep, ABudgetThatIsUsedUpKeepsWhatWasMeasured) {
  Loopback shared(2);
  const Json found = swept({"--op", "all_reduce", "--budget", "1ms", "-e", "16M", "-n", "50"}, 2, shared);
  EXPECT_EQ(found["complete"], false);
  EXPECT_EQ(found["stopped"], "the budget of 0.001 s is used up");
  EXPECT_LT(found["collectives"].size(), 40U);
}

}  // namespace
}  // namespace zplan::bench
