#include "models/base/pattern.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

TEST(Pattern, FindsTheFirstMatchAndItsGroups) {
  const Pattern rate(R"((\d+)x ?(\d+)( Gb/s)?)");
  const std::string_view text = "nodes with 8x 200 NICs, or 4x400 Gb/s";
  const auto found = rate.find(text);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, (Pattern::Match{"8x 200", "8", "200", ""}));
  EXPECT_EQ((*found)[0].data(), text.data() + 11) << "the parts are parts of the text";
  EXPECT_FALSE(rate.find("none"));
}

TEST(Pattern, MatchesTheWholeTextOnly) {
  const Pattern part(R"((\d)g\.(\d+)gb)", Pattern::Letters::of_any_case);
  EXPECT_TRUE(part.match("3G.40GB"));
  EXPECT_FALSE(part.match("MIG 3g.40gb"));
  EXPECT_FALSE(Pattern(R"((\d)g\.(\d+)gb)").match("3G.40GB"));
}

}  // namespace
}  // namespace zplan
