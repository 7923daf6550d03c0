#include "gui/editors/used_values.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace zplan::gui {
namespace {

TEST(UsedValues, AreWhatThePlanWasMadeWith) {
  const PlannedPtr planned = plan_scenario({.name = "x", .arguments = {"--model", "gpt2", "--gpus", "2"}},
                                           Environment{}, Depth::full);
  EXPECT_EQ(used_value("--seq", *planned), "1024");  // gpt2 has no more positions
  EXPECT_EQ(used_value("--grad-accum", *planned), "1");
  EXPECT_EQ(used_value("--global-batch", *planned), "2");
  EXPECT_EQ(used_value("--zero", *planned), "0,1,2,3");
  EXPECT_EQ(used_value("--offload", *planned), "none,optimizer,all");
  EXPECT_EQ(used_value("--headroom", *planned), "10 %");
  EXPECT_EQ(used_value("--ds-config", *planned), "");
}

TEST(UsedValues, StatedDefaultsAreTheHelps) {
  const auto stated = [](std::string_view option) {
    return stated_default(*std::ranges::find(option_table(), option, &OptionSpec::name));
  };
  EXPECT_EQ(stated("--seq"), "2048");
  EXPECT_EQ(stated("--precision"), "bf16");
  EXPECT_EQ(stated("--model"), "");
}

}  // namespace
}  // namespace zplan::gui
