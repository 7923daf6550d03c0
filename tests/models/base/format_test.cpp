#include "models/base/format.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

TEST(Format, BytesAlwaysNameTheirUnit) {
  EXPECT_EQ(format_bytes(Bytes(16'060'522'496)), "15.0 GiB");
  EXPECT_EQ(format_bytes(Bytes(16'060'522'496), ByteUnit::gb), "16.1 GB");
  EXPECT_EQ(format_bytes(Bytes(kGiB.value * 3 / 2)), "1.50 GiB");
  EXPECT_EQ(format_bytes(Bytes(33'554'432)), "32.0 MiB");
  EXPECT_EQ(format_bytes(Bytes(33'554'432), ByteUnit::gb), "33.6 MB");
  EXPECT_EQ(format_bytes(Bytes(512)), "512 B");
  EXPECT_EQ(format_bytes(Bytes(0)), "0 B");
  EXPECT_EQ(format_bytes(kGiB * 2607), "2607 GiB");
}

TEST(Format, ANegativeSizeKeepsItsSign) { EXPECT_EQ(format_bytes(kGiB * -3), "-3.00 GiB"); }

TEST(Format, Counts) {
  EXPECT_EQ(format_count(Elements(8'030'261'248)), "8.03 B");
  EXPECT_EQ(format_count(Elements(494'032'768)), "494 M");
  EXPECT_EQ(format_count(Elements(1'100'000'000'000)), "1.10 T");
  EXPECT_EQ(format_count(Elements(999)), "999");
  EXPECT_EQ(group_digits(8'030'261'248), "8,030,261,248");
  EXPECT_EQ(group_digits(-1234), "-1,234");
  EXPECT_EQ(group_digits(999), "999");
}

TEST(Format, Times) {
  EXPECT_EQ(format_seconds(Seconds(1.52)), "1.52 s");
  EXPECT_EQ(format_seconds(Seconds(0.0123)), "12.3 ms");
  EXPECT_EQ(format_seconds(Seconds(126)), "2.10 min");
  EXPECT_EQ(format_seconds(Seconds(7200)), "2.00 h");
  EXPECT_EQ(format_seconds(Seconds(5e-6)), "5.00 µs");
}

TEST(Format, RatesAndShares) {
  EXPECT_EQ(format_rate(BytesPerSecond(233e9)), "233 GB/s");
  EXPECT_EQ(format_rate(BytesPerSecond(1.4e9)), "1.40 GB/s");
  EXPECT_EQ(format_percent(0.376), "38 %");
}

}  // namespace
}  // namespace zplan
