#include "gui/charts/axis.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace zplan::gui {
namespace {

QStringList texts(const QVector<Tick>& ticks) {
  QStringList all;
  for (const Tick& each : ticks) all << each.text;
  return all;
}

TEST(RoundTicks, CountInTheUnitThatTheLastOneNames) {
  const Scale gib{1073741824, "GiB"};
  EXPECT_EQ(texts(round_ticks(44 * gib.unit, gib, 5)), (QStringList{"0", "10", "20", "30", "40 GiB"}));
  EXPECT_EQ(texts(round_ticks(0.9, {1, "s"}, 5)), (QStringList{"0", "0.2", "0.4", "0.6", "0.8 s"}));
  EXPECT_EQ(texts(round_ticks(50'000, {1, ""}, 3)).at(1), "20,000");
  EXPECT_EQ(round_ticks(44 * gib.unit, gib, 5)[1].value, 10 * gib.unit);
}

TEST(RoundTicks, AreNeverMoreThanAskedFor) {
  for (double most = 0.003; most < 1e6; most *= 1.37)
    for (int count = 1; count < 12; ++count) {
      const QVector<Tick> ticks = round_ticks(most, {1, "s"}, count);
      EXPECT_LE(ticks.size(), count + 1) << most;
      EXPECT_LE(ticks.back().value, most * (1 + 1e-9));
    }
}

TEST(RoundTicks, OfNothingAreNothing) {
  for (const double most :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_EQ(texts(round_ticks(most, {1, "s"}, 5)), QStringList{"0 s"});
}

class Limits : public ::testing::TestWithParam<std::array<double, 3>> {};
INSTANTIATE_TEST_SUITE_P(Places, Limits,
                         ::testing::Values(std::array{100.0, 110.0, 112.0}, std::array{396.0, 398.0, 400.0},
                                           std::array{10.0, 200.0, 390.0}, std::array{190.0, 200.0, 210.0}));

TEST_P(Limits, LabelsKeepApartFromEachOtherAndFromLines) {
  QVector<Mark> marks;
  for (const double value : GetParam()) marks.push_back({"limit", "10 GiB", value, marks.isEmpty()});
  const QVector<Limit> limits = place_limits(
      marks, [](double value) { return value; }, 0, 440, 0, 16,
      [](const QString& text) { return 6.0 * static_cast<double>(text.size()); });
  ASSERT_EQ(limits.size(), 3);
  for (const Limit& each : limits) {
    ASSERT_GE(each.tier, 0);
    EXPECT_GE(each.label.left(), 0);
    EXPECT_LE(each.label.right(), 440);
    for (const Limit& other : limits) {
      if (&other == &each) continue;
      EXPECT_FALSE(each.label.intersects(other.label));
      // Its line reaches from its own tier down.
      if (other.tier >= each.tier) {
        EXPECT_TRUE(other.x <= each.label.left() || other.x >= each.label.right());
      }
    }
  }
}

}  // namespace
}  // namespace zplan::gui
