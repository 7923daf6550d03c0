#include "planner/question/work.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "planner/search/parallel.h"

namespace zplan {
namespace {

TEST(FirstThat, IsTheFirstOfEveryRange) {
  for (std::int64_t count = 0; count <= 40; ++count)
    for (std::int64_t first = 0; first <= count; ++first)
      EXPECT_EQ(first_that(count, [first](std::int64_t i) { return i >= first; }), first) << count;
}

TEST(FirstThat, AnEmptyRangeHoldsNothing) {
  const auto never_asked = [](std::int64_t) -> bool { throw std::logic_error("asked"); };
  EXPECT_EQ(first_that(0, never_asked), 0);
  EXPECT_EQ(first_that(-3, never_asked), 0);
}

TEST(FirstThat, LooksAtFewValuesHoweverTheyBehave) {
  constexpr std::int64_t kCount = std::int64_t{1} << 40;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
    std::uint64_t state = seed;
    std::int64_t asked = 0;
    const std::int64_t found = first_that(kCount, [&](std::int64_t i) {
      EXPECT_TRUE(i >= 0 && i < kCount);
      state = state * 6364136223846793005U + 1442695040888963407U;
      return ++asked, (state >> 60U) == 0;
    });
    EXPECT_LE(asked, 2 * 40 + 2);
    EXPECT_LE(found, kCount);
  }
}

TEST(FirstThat, EachValueIsAStep) {
  const Work work;
  std::int64_t asked = 0;
  static_cast<void>(first_that(1000, [&](std::int64_t i) { return ++asked, i >= 700; }));
  EXPECT_EQ(work.steps(), asked);
}

TEST(Works, WhereNobodyWatchesNothingStops) {
  EXPECT_EQ(Work::current(), nullptr);
  EXPECT_NO_THROW(take_step());
  EXPECT_NO_THROW(stop_if_asked());
}

TEST(Works, StepsUpToTheBudgetAreTaken) {
  const Work work(nullptr, 3);
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(take_step());
  EXPECT_THROW(take_step(), OverBudget);
}

TEST(Works, AStoppedOneEndsAtItsNextStep) {
  std::atomic<bool> stop{false};
  const Work work(&stop);
  EXPECT_NO_THROW(take_step());
  stop = true;
  EXPECT_THROW(take_step(), Stopped);
  EXPECT_THROW(stop_if_asked(), Stopped);
}

TEST(Works, AnInnerOneIsPartOfTheOuter) {
  std::atomic<bool> stop{false};
  const Work outer(&stop, 4);
  {
    const Work inner(nullptr, 2);
    EXPECT_EQ(Work::current(), &inner);
    take_step(), take_step();
    EXPECT_THROW(take_step(), OverBudget);
    stop = true;
    EXPECT_THROW(stop_if_asked(), Stopped);
    stop = false;
  }
  EXPECT_EQ(Work::current(), &outer);
  EXPECT_GE(outer.steps(), 2);
}

TEST(InParallel, AllThreadsAreAtTheWorkOfTheFirst) {
  const Work work;
  for_each_in_parallel(500, [](std::size_t) { take_step(); });
  EXPECT_EQ(work.steps(), 500);
}

TEST(InParallel, WhatIsStoppedBeginsNothingFurther) {
  std::atomic<bool> stop{false};
  std::atomic<int> begun{0};
  const Work work(&stop);
  EXPECT_THROW(for_each_in_parallel(100'000,
                                    [&](std::size_t) {
                                      ++begun;
                                      stop = true;
                                      take_step();
                                    }),
               Stopped);
  EXPECT_LT(begun, 1000);  // one on each thread
}

TEST(InParallel, WhatOneThrowsIsThrownAndEndsTheOthers) {
  std::atomic<int> begun{0};
  EXPECT_THROW(for_each_in_parallel(1'000'000,
                                    [&](std::size_t) {
                                      ++begun;
                                      throw std::runtime_error("no");
                                    }),
               std::runtime_error);
  EXPECT_LT(begun, 1000);
}

TEST(InParallel, ResultsAreInOrder) {
  std::vector<int> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(mapped_in_parallel(all, [](int each) { return each; }), all);
}

}  // namespace
}  // namespace zplan
