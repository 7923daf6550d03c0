// Measurements of one GPU on the stand-ins' clock (fake/fake_cuda.h): 50 GB/s from and to pinned memory,
// 10 GB/s pageable, 2 TB/s inside, 800, 400 and 50 TFLOP/s.

#include "harness/nccl/device_measurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fake_ranks.h"
#include "harness/control.h"
#include "models/base/error.h"

namespace zplan::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double launch = 1e-6;

DeviceMeasurementOptions nothing() {
  DeviceMeasurementOptions options;
  options.copy_sizes = {}, options.products = {}, options.memory_sizes = {};
  options.repetitions = 3;
  options.places = fake_places();
  return options;
}

DeviceTimes measure(const DeviceMeasurementOptions& options) {
  forget_fake_calls();
  DeviceTimes times = measure_device(options);
  EXPECT_EQ(fake_complaints(), "");
  EXPECT_EQ(fake_left_behind(), 0);
  return times;
}

void expect_seconds(const std::vector<double>& samples, double seconds) {
  EXPECT_EQ(samples.size(), 3U);
  for (const double each : samples) EXPECT_NEAR(each, seconds, 1e-4 * seconds + 1e-9);
}

TEST(Copies, AreTimedBothWaysFromBothKindsOfMemory) {
  DeviceMeasurementOptions options = nothing();
  options.copy_sizes = {kMiB * 4, kMiB};
  const DeviceTimes times = measure(options);
  ASSERT_EQ(times.copies.size(), 8U);
  std::set<std::tuple<CopyDirection, HostMemory, std::int64_t>> kinds;
  for (const CopyTimes& each : times.copies) {
    kinds.insert({each.direction, each.memory, each.bytes.value});
    const double rate = each.memory == HostMemory::pinned ? 50e9 : 10e9;
    expect_seconds(each.samples, launch + static_cast<double>(each.bytes.value) / rate);
  }
  EXPECT_EQ(kinds.size(), 8U);
  EXPECT_TRUE(times.notes.empty());
  EXPECT_TRUE(times.products.empty() && times.memory.empty());
}

TEST(Copies, WithoutPinnedMemoryForAllSizesSaySo) {
  const Environment limit("FAKE_CUDA_HOST_MEMORY", "2000000");
  DeviceMeasurementOptions options = nothing();
  options.copy_sizes = {kMiB, kMiB * 4, kMiB * 16};
  options.who = "rank 3";
  const DeviceTimes times = measure(options);
  EXPECT_EQ(times.copies.size(), 2U + 6U);
  EXPECT_THAT(
      times.notes,
      ElementsAre("rank 3: copies of 4194304 bytes and more (pinned memory) are left out: out of memory"));
}

TEST(MemoryBandwidth, CountsWhatIsReadAndWritten) {
  DeviceMeasurementOptions options = nothing();
  options.memory_sizes = {kMiB * 64};
  const DeviceTimes times = measure(options);
  ASSERT_EQ(times.memory.size(), 1U);
  EXPECT_EQ(times.memory[0].bytes, kMiB * 128);
  expect_seconds(times.memory[0].samples, launch + 128 * 1048576 / 2000e9);
}

TEST(MemoryBandwidth, TakesASmallerSizeThatFits) {
  const Environment limit("FAKE_CUDA_MEMORY", "40000000");
  DeviceMeasurementOptions options = nothing();
  options.memory_sizes = {kMiB * 64};
  const DeviceTimes times = measure(options);
  ASSERT_EQ(times.memory.size(), 1U);
  EXPECT_EQ(times.memory[0].bytes, kMiB * 32);
  EXPECT_THAT(times.notes,
              ElementsAre("rank 0: memory is measured with 16777216 bytes: out of memory for 67108864"));
}

TEST(MemoryBandwidth, OfAFullDeviceIsLeftOut) {
  const Environment limit("FAKE_CUDA_MEMORY", "1000");
  DeviceMeasurementOptions options = nothing();
  options.memory_sizes = {kMiB * 64};
  const DeviceTimes times = measure(options);
  EXPECT_TRUE(times.memory.empty());
  EXPECT_THAT(times.notes, ElementsAre(StartsWith("rank 0: memory is not measured")));
}

TEST(Products, AreTimedOneByOneInEachType) {
  DeviceMeasurementOptions options = nothing();
  options.products = {{.type = ProductType::bfloat16, .m = 256, .n = 512, .k = 128},
                      {.type = ProductType::float16, .m = 2048, .n = 2048, .k = 2048},
                      {.type = ProductType::tf32, .m = 300, .n = 200, .k = 100},
                      {.type = ProductType::float32, .m = 512, .n = 512, .k = 512}};
  const DeviceTimes times = measure(options);
  ASSERT_EQ(times.products.size(), 4U);
  const std::vector<double> rates{800e12, 800e12, 400e12, 50e12};
  for (std::size_t each = 0; each < 4; ++each) {
    EXPECT_EQ(times.products[each].product, options.products[each]);
    expect_seconds(times.products[each].samples, launch + options.products[each].flops().value / rates[each]);
  }
}

TEST(Products, WithoutMemoryAreLeftOut) {
  const Environment limit("FAKE_CUDA_MEMORY", "1000000");
  DeviceMeasurementOptions options = nothing();
  options.products = {{.type = ProductType::float32, .m = 1024, .n = 1024, .k = 1024},
                      {.type = ProductType::bfloat16, .m = 128, .n = 128, .k = 128}};
  const DeviceTimes times = measure(options);
  ASSERT_EQ(times.products.size(), 1U);
  EXPECT_EQ(times.products[0].product.m, 128);
  EXPECT_THAT(times.notes,
              ElementsAre("rank 0: the float32 product of 1024 x 1024 x 1024 is left out: out of memory"));
}

TEST(DeviceDefaults, AreTheSizesThatTrainingUses) {
  const std::vector<Bytes> sizes = default_copy_sizes();
  EXPECT_EQ(sizes.front(), kMiB);
  EXPECT_EQ(sizes.back(), kGiB);
  const std::vector<Product> products = default_products();
  std::int64_t head = 0;
  for (const Product& each : products) {
    if (each.n == 128256) head += each.m;
    EXPECT_GT(each.flops().value, 2e9);
  }
  EXPECT_EQ(products.size(), 4U * 4U + 10U);
  EXPECT_EQ(head, 2048 + 8192);
}

TEST(DeviceMeasurements, OfADeviceThatHangsEnd) {
  DeviceMeasurementOptions options = nothing();
  options.copy_sizes = {kMiB};
  options.timeout = Seconds(0.3);
  const Environment fault("FAKE_CUDA_HANG", "1");
  try {
    static_cast<void>(measure_device(options));
    FAIL() << "it did end";
  } catch (const BenchError& error) {
    EXPECT_STREQ(error.what(), "rank 0: a measurement did not end within 0.3 s");
  }
}

TEST(DeviceMeasurements, OfADeviceThatIsNotThereAreRefused) {
  DeviceMeasurementOptions options = nothing();
  options.device = 8;
  EXPECT_THROW(static_cast<void>(measure_device(options)), BenchError);
}

}  // namespace
}  // namespace zplan::bench
