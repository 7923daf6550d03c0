// The bandwidth of a link at which two strategies are equally fast.

#include "planner/search/crossover.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hardware_profiles/collective_cost.h"
#include "hardware_profiles/profiles.h"
#include "planner/plan/plan_context.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

TEST(SignChanges, AreFoundOnEitherSide) {
  for (const double at : {0.017, 0.2, 0.99, 1.01, 3.0, 60.0}) {
    const auto rising = [at](double x) { return std::log(x / at); };
    const auto falling = [at](double x) { return std::log(at / x); };
    ASSERT_TRUE(nearest_sign_change(rising, 64)) << at;
    EXPECT_NEAR(*nearest_sign_change(rising, 64) / at, 1, 1e-3) << at;
    EXPECT_NEAR(nearest_sign_change(falling, 64).value_or(0) / at, 1, 1e-3) << at;
  }
}

TEST(SignChanges, AreNotMadeUp) {
  EXPECT_FALSE(nearest_sign_change([](double) { return 1.0; }, 64));
  EXPECT_FALSE(nearest_sign_change([](double) { return 0.0; }, 64));
  EXPECT_FALSE(nearest_sign_change([](double x) { return std::log(x / 65); }, 64));
  EXPECT_FALSE(nearest_sign_change([](double x) { return std::log(x * 65); }, 64));
}

TEST(SignChanges, TheNearestIsTaken) {
  const auto twice = [](double x) { return (x - 3) * (x - 0.1); };
  EXPECT_NEAR(nearest_sign_change(twice, 64).value_or(0), 3, 1e-2);
}

/// Two nodes of eight GPUs.
Cluster two_nodes() {
  return assemble_cluster({.gpu = "H100-SXM-80GB", .gpus = 16, .nodes = 2, .network = "8x100g"},
                          built_in_profiles());
}

Seconds price(const Cluster& cluster, std::int64_t ranks, Bytes size) {
  return CollectivePricer(cluster, Operation::all_gather, place_group(cluster, ranks)).time(size);
}

TEST(FasterLinks, ShortenWhatBytesTakeAndLeaveTheLatency) {
  const Cluster now = roomy_cluster(8);
  const Seconds latency = price(now, 8, Bytes(1));
  for (const double factor : {0.25, 0.5, 2.0, 16.0})
    for (const Bytes size : {Bytes(1024), Bytes(1'000'000), Bytes(1'000'000'000)}) {
      const Seconds before = price(now, 8, size), then = price(with_link(now, factor), 8, size);
      EXPECT_NEAR((then - latency).value, (before - latency).value / factor, 1e-12) << factor;
    }
}

TEST(FasterLinks, OfOneKindLeaveTheOthersGroups) {
  const Cluster now = two_nodes(), then = with_link(now, 4);
  EXPECT_EQ(price(now, 8, kGiB), price(then, 8, kGiB));
  EXPECT_LT(price(then, 16, kGiB), price(now, 16, kGiB));
}

TEST(FasterLinks, NeverTakeLongerAndAreBoundByNVLink) {
  const Cluster now = two_nodes();
  Seconds before = price(with_link(now, 1.0 / 64), 16, kGiB);
  for (double factor = 1.0 / 32; factor <= 64; factor *= 2) {
    const Seconds time = price(with_link(now, factor), 16, kGiB);
    EXPECT_LE(time, before) << factor;
    before = time;
  }
  const Seconds at_nvlink(15.0 / 16 * static_cast<double>(kGiB.value) / now.inside.all_gather.value);
  EXPECT_GE(before.value, std::min(at_nvlink, price(now, 16, kGiB)).value * 0.999);
}

TEST(DecisiveLinks, AreTheOutermost) {
  EXPECT_FALSE(decisive_link(roomy_cluster(1)));
  EXPECT_FALSE(decisive_link(roomy_cluster(8))->between);
  EXPECT_EQ(decisive_link(roomy_cluster(8))->name, "PCIe");
  EXPECT_TRUE(decisive_link(two_nodes())->between);
  EXPECT_EQ(decisive_link(two_nodes())->now, two_nodes().network->per_node);
}

/// Strategies of a small model whose tensor-parallel traffic grows with the tokens, its ZeRO traffic not.
class Crossovers : public ::testing::Test {
 protected:
  explicit Crossovers(std::int64_t gpus = 8)
      : question_{.model = tiny_llama({{"hidden", 1024},
                                       {"layers", 4},
                                       {"heads", 16},
                                       {"kv", 16},
                                       {"ffn", 4096},
                                       {"vocab", 32'000},
                                       {"tie", false}}),
                  .cluster = roomy_cluster(gpus),
                  .training = {},
                  .space = {},
                  .headroom = {},
                  .unit = ByteUnit::gib} {
    question_.training.sequence_length = 256;
  }
  [[nodiscard]] Strategy strategy(int stage, std::int64_t tensor_parallel) const {
    return {.zero_stage = stage,
            .layout = {.tensor = tensor_parallel, .shard = question_.cluster.gpus / tensor_parallel},
            .gradient_accumulation_steps = tensor_parallel};
  }
  [[nodiscard]] std::optional<Crossover> between(const Strategy& one, const Strategy& other) const {
    return crossover(question_, {.strategy = one}, {.strategy = other});
  }
  [[nodiscard]] double tokens(const Strategy& s, double factor) const {
    const Cluster cluster = with_link(question_.cluster, factor);
    return PlanContext(question_.model, cluster, question_.training, {}).time(s).tokens_per_second;
  }

  Question question_;
};

TEST_F(Crossovers, BothAreEquallyFastThere) {
  int found = 0;
  for (const std::int64_t length : {64, 256, 1024, 2048})
    for (const auto& [one, other] :
         {std::pair{strategy(3, 1), strategy(1, 2)}, std::pair{strategy(0, 1), strategy(3, 1)},
          std::pair{strategy(2, 1), strategy(1, 8)}, std::pair{strategy(3, 1), strategy(0, 8)}}) {
      question_.training.sequence_length = length;
      const std::optional<Crossover> at = between(one, other);
      if (!at) continue;
      ++found;
      EXPECT_NEAR(tokens(one, at->factor) / tokens(other, at->factor), 1, 0.01);
      EXPECT_NEAR(ratio(at->at, at->link.now), at->factor, 1e-9 * at->factor);
      EXPECT_GT(tokens(at->below.strategy, at->factor * 0.97), tokens(at->above.strategy, at->factor * 0.97));
      EXPECT_GT(tokens(at->above.strategy, at->factor * 1.03), tokens(at->below.strategy, at->factor * 1.03));
      const std::optional<Crossover> back = between(other, one);
      ASSERT_TRUE(back);
      EXPECT_NEAR(back->factor, at->factor, 1e-3 * at->factor);
      EXPECT_EQ(back->below, at->below);
    }
  EXPECT_GT(found, 0);
}

TEST_F(Crossovers, NoneWhereOneIsAlwaysFaster) {
  EXPECT_FALSE(between(strategy(1, 1), strategy(1, 1)));
  int none = 0;
  for (const int stage : {0, 1, 2})
    if (!between(strategy(stage, 1), strategy(3, 1))) {
      ++none;
      const bool now = tokens(strategy(stage, 1), 1) > tokens(strategy(3, 1), 1);
      for (const double factor : {1.0 / 64, 0.125, 8.0, 64.0})
        EXPECT_EQ(tokens(strategy(stage, 1), factor) > tokens(strategy(3, 1), factor), now)
            << stage << factor;
    }
  static_cast<void>(none);
}

TEST_F(Crossovers, OneGpuHasNoLink) {
  question_.cluster = roomy_cluster(1);
  EXPECT_FALSE(between(strategy(0, 1), strategy(3, 1)));
}

TEST_F(Crossovers, AContestIsBetweenTheTwoFastestThatFit) {
  std::vector<Plan> plans(3);
  plans[0].strategy = strategy(0, 1), plans[0].time.tokens_per_second = 300;
  plans[1].strategy = strategy(1, 1), plans[1].time.tokens_per_second = 100, plans[1].fits = true;
  plans[2].strategy = strategy(3, 1), plans[2].time.tokens_per_second = 200;
  EXPECT_EQ(contest(question_, plans)->faster, "zero0");
  EXPECT_EQ(contest(question_, plans)->slower, "zero3");
  plans[2].fits = true;
  EXPECT_EQ(contest(question_, plans)->faster, "zero3");
  EXPECT_EQ(contest(question_, plans)->slower, "zero1");
  EXPECT_DOUBLE_EQ(contest(question_, plans)->ratio, 2);
  plans.resize(1);
  EXPECT_FALSE(contest(question_, plans));
}

}  // namespace
}  // namespace zplan::testing
