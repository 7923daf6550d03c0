// Configs that zplan itself writes are clean, in every style.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grid.h"
#include "lint_support.h"

namespace zplan::testing {
namespace {

TEST(LintGrid, WhatIsEmittedIsClean) {
  const std::vector<GridCase> cases = grid();
  ASSERT_GE(cases.size(), 700U);
  for (const GridCase& each : cases)
    for (const ConfigStyle style : {ConfigStyle::plain, ConfigStyle::hf_auto, ConfigStyle::ms_swift}) {
      const Json config = ds_config(each.plan, each.question, style);
      const std::vector<Finding> findings =
          linted(config, {.style = style,
                          .gpus = each.question.cluster.gpus,
                          .tensor_parallel = each.plan.strategy.layout.tensor,
                          .compute_capability = "9.0"});
      for (const Finding& finding : findings)
        EXPECT_EQ(finding.severity, Severity::note) << each.name << " " << to_name(style) << "\n"
                                                    << lines({finding});
    }
}

TEST(LintGrid, ItsStyleIsInferred) {
  const GridCase first = grid().front();
  EXPECT_EQ(inferred_style(ds_config(first.plan, first.question, ConfigStyle::plain)), ConfigStyle::plain);
  EXPECT_EQ(inferred_style(ds_config(first.plan, first.question, ConfigStyle::hf_auto)),
            ConfigStyle::hf_auto);
}

}  // namespace
}  // namespace zplan::testing
