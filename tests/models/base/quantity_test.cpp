#include "models/base/quantity.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace zplan {
namespace {

using namespace literals;

TEST(Quantity, DividingBytesByARateGivesSeconds) {
  const Seconds time = Bytes(10'000'000'000) / BytesPerSecond(5e9);
  EXPECT_DOUBLE_EQ(time.value, 2.0);
}

TEST(Quantity, AShareRoundsUp) {
  EXPECT_EQ(share(Elements(10), 5), 2_el);
  EXPECT_EQ(share(Elements(11), 5), 3_el);
  EXPECT_EQ(share(Bytes(0), 7), 0_B);
}

TEST(Quantity, SharesCoverTheWholeAndWasteLessThanOneEach) {
  for (std::int64_t whole = 0; whole < 200; ++whole)
    for (std::int64_t parts = 1; parts < 20; ++parts) {
      const std::int64_t covered = share(Elements(whole), parts).value * parts;
      EXPECT_GE(covered, whole);
      EXPECT_LT(covered - whole, parts);
    }
}

TEST(Quantity, AShareOfTheLargestCountDoesNotOverflow) {
  const Elements most(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(share(most, 1), most);
  EXPECT_EQ(share(most, 2).value, most.value / 2 + 1);
}

TEST(Quantity, RoundUpFindsTheNextMultiple) {
  EXPECT_EQ(round_up(Elements(2'002'250), 4), 2'002'252_el);
  EXPECT_EQ(round_up(Elements(8), 4), 8_el);
}

TEST(Quantity, ElementsTimesBytesEachAreBytes) {
  static_assert(std::is_same_v<decltype(Elements(3) * Bytes(2)), Bytes>);
  EXPECT_EQ(Elements(3) * Bytes(2), 6_B);
}

// Checks at compile time that wrong units do not compile.
template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
static_assert(Addable<Bytes, Bytes>);
static_assert(!Addable<Bytes, Elements>);
static_assert(!Addable<Bytes, int>);
static_assert(!Addable<Seconds, Bytes>);
static_assert(!Divisible<Bytes, Seconds>);
static_assert(!Divisible<BytesPerSecond, Bytes>);
static_assert(!Divisible<Flops, BytesPerSecond>);
static_assert(!Comparable<Bytes, Elements>);
static_assert(!std::is_convertible_v<int, Bytes>);

}  // namespace
}  // namespace zplan
