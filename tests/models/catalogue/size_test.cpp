#include <gtest/gtest.h>

#include <limits>

#include "models/catalogue/catalogue.h"

namespace zplan {
namespace {

TEST(ParseSize, IsExactInDecimals) {
  EXPECT_EQ(parse_size("8B"), Elements(8'000'000'000));
  EXPECT_EQ(parse_size("0.5B"), Elements(500'000'000));
  EXPECT_EQ(parse_size("1.7B"), Elements(1'700'000'000));
  EXPECT_EQ(parse_size("8.030261248B"), Elements(8'030'261'248));
  EXPECT_EQ(parse_size("0.1T"), Elements(100'000'000'000));
  EXPECT_EQ(parse_size("1.1T"), Elements(1'100'000'000'000));
  EXPECT_EQ(parse_size("350M"), Elements(350'000'000));
  EXPECT_EQ(parse_size("500K"), Elements(500'000));
}

TEST(ParseSize, TakesEitherCaseLeadingAndTrailingZerosAndOneSpace) {
  EXPECT_EQ(parse_size("7b"), Elements(7'000'000'000));
  EXPECT_EQ(parse_size("007B"), Elements(7'000'000'000));
  EXPECT_EQ(parse_size("7.000000000000B"), Elements(7'000'000'000));
  EXPECT_EQ(parse_size("1.5 B"), Elements(1'500'000'000));
  EXPECT_EQ(parse_size("0B"), Elements(0));
}

TEST(ParseSize, SaysNothingOfWhatIsNoSize) {
  for (const char* text : {"",    "B",    "8",        "8 ",   ".5B",           "5.B",    "-8B",  "+8B",
                           "8BB", "8GB",  "8x7B",     "1,5B", "1e3M",          "1.2.3B", "8  B", " 8B",
                           "8B ", "0x8B", "Qwen3-8B", "٨B",   "0.0000000001B", "infB",   "nanT", "."})
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
}

TEST(ParseSize, SizesBeyond64BitsAreTheLargestNumberNotAWrappedOne) {
  EXPECT_EQ(parse_size("99999999T"), Elements(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(parse_size(std::string(5000, '9') + "B"), Elements(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(parse_size("9223372T"), Elements(9'223'372'000'000'000'000));
}

}  // namespace
}  // namespace zplan
