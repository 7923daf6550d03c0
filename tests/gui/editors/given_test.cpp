#include "gui/editors/given.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/command_line.h"
#include "gui/editors/log_slider.h"
#include "gui/editors/used_values.h"

namespace zplan::gui {
namespace {

TEST(Given, ValuesAreReadInBothSpellings) {
  const std::vector<std::string> arguments{"--model", "8B", "--seq=4096", "--fused-loss", "--gpus"};
  EXPECT_EQ(given_value(arguments, "--model"), "8B");
  EXPECT_EQ(given_value(arguments, "--seq"), "4096");
  EXPECT_EQ(given_value(arguments, "--fused-loss"), kFlagGiven);
  EXPECT_EQ(given_value(arguments, "--gpus"), "");
  EXPECT_FALSE(given_value(arguments, "--gpu"));
}

TEST(Given, AValueThatLooksLikeAnOptionIsAValue) {
  const std::vector<std::string> arguments{"--model", "--gpus", "--seq", "512"};
  EXPECT_EQ(given_value(arguments, "--model"), "--gpus");
  EXPECT_FALSE(given_value(arguments, "--gpus"));
  EXPECT_EQ(given_value(with_options(arguments, {{"--gpus", "8"}}), "--model"), "--gpus");
}

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

TEST(LogSliderStops, RiseFromEndToEnd) {
  for (const auto& stops : {sequence_stops(), micro_batch_stops(), gpu_stops()}) {
    EXPECT_TRUE(std::ranges::is_sorted(stops));
    EXPECT_EQ(std::ranges::adjacent_find(stops), stops.end());
  }
  EXPECT_EQ(sequence_stops().front(), 512);
  EXPECT_EQ(sequence_stops().back(), 1'048'576);
  EXPECT_EQ(gpu_stops().front(), 1);
  EXPECT_EQ(gpu_stops().back(), 1024);
  EXPECT_EQ(micro_batch_stops().back(), 64);
}

}  // namespace
}  // namespace zplan::gui
