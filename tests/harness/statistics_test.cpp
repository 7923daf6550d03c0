#include "harness/statistics.h"

#include <gtest/gtest.h>

namespace zplan::bench {
namespace {

// numpy.quantile([3, 1, 2, 10], [0.5, 0.1, 0.9]) is 2.5, 1.3, 7.9 (its default, linear).
TEST(Statistics, AreNumpys) {
  const Statistics s = statistics({3, 1, 2, 10});
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.p10, 1.3);
  EXPECT_DOUBLE_EQ(s.p90, 7.9);
  EXPECT_EQ(s.lowest, 1);
  EXPECT_EQ(s.highest, 10);
  EXPECT_EQ(s.mean, 4);
}

TEST(Statistics, OfOneSampleAreThatSample) { EXPECT_EQ(statistics({7}), (Statistics{7, 7, 7, 7, 7, 7})); }

}  // namespace
}  // namespace zplan::bench
