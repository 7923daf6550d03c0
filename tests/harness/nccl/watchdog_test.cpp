#include "harness/nccl/watchdog.h"

#include <gtest/gtest.h>

#include <future>

namespace zplan::bench {
namespace {

TEST(Watchdog, BitesWhatTakesTooLong) {
  std::promise<void> bitten;
  Watchdog dog(Seconds(0.05), [&] { bitten.set_value(); });
  {
    const Watchdog::Watch watch(dog);
    bitten.get_future().wait();
  }
  EXPECT_TRUE(dog.has_bitten());
}

TEST(Watchdog, LeavesAloneWhatIsThroughInTime) {
  bool bitten = false;
  {
    Watchdog dog(Seconds(1000), [&] { bitten = true; });
    for (int each = 0; each < 3; ++each) const Watchdog::Watch watch(dog);
    EXPECT_FALSE(dog.has_bitten());
  }
  EXPECT_FALSE(bitten);
}

}  // namespace
}  // namespace zplan::bench
