#include "harness/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace zplan::bench {
namespace {

TEST(Watchdog, SaysWhatHasNotEnded) {
  std::promise<std::string> told;
  Watchdog watchdog(Seconds(0.1), Seconds(0), [&](const std::string& reason) { told.set_value(reason); });
  watchdog.begin("all_reduce of 8 B");
  std::future<std::string> reason = told.get_future();
  ASSERT_EQ(reason.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(reason.get(), "all_reduce of 8 B has not ended for 0.1 s: a rank is gone or hangs");
}

TEST(Watchdog, EndsAtOnceWhereNothingHangs) {
  const auto begin = std::chrono::steady_clock::now();
  {
    Watchdog watchdog(Seconds(3600), Seconds(0), [](const std::string&) { FAIL(); });
    watchdog.tick();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace zplan::bench
