#include "harness/nccl/call_limit.h"

#include <gtest/gtest.h>

#include <future>

namespace zplan::bench {
namespace {

TEST(CallLimit, BitesWhatTakesTooLong) {
  std::promise<void> bitten;
  CallLimit dog(Seconds(0.05), [&] { bitten.set_value(); });
  {
    const CallLimit::Watch watch(dog);
    bitten.get_future().wait();
  }
  EXPECT_TRUE(dog.has_bitten());
}

TEST(CallLimit, LeavesAloneWhatIsThroughInTime) {
  bool bitten = false;
  {
    CallLimit dog(Seconds(1000), [&] { bitten = true; });
    for (int each = 0; each < 3; ++each) const CallLimit::Watch watch(dog);
    EXPECT_FALSE(dog.has_bitten());
  }
  EXPECT_FALSE(bitten);
}

}  // namespace
}  // namespace zplan::bench
