#include "planner/frameworks/deepspeed/config/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.h"

namespace zplan::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Keys, HoldWhatDeepSpeedDocuments) {
  const DsKeys& keys = ds_keys();
  ASSERT_NE(find_section(keys, "/zero_optimization"), nullptr);
  EXPECT_TRUE(find_section(keys, "/zero_optimization")->rejects_unknown);
  EXPECT_FALSE(find_section(keys, "/aio")->rejects_unknown);
  EXPECT_THAT(find_section(keys, "")->keys, Contains("train_micro_batch_size_per_gpu"));
  EXPECT_THAT(keys.auto_pointers, Contains("/zero_optimization/stage3_prefetch_bucket_size"));
}

TEST(Keys, UnknownOnesNameTheNearest) {
  EXPECT_THAT(error_of({{"zero_optimisation", {{"stage", 2}}}}),
              AllOf(HasSubstr("unknown key \"zero_optimisation\""), HasSubstr("zero_optimization?")));
  EXPECT_THAT(error_of({{"zero_optimization", {{"overlap_com", true}}}}),
              AllOf(HasSubstr("ds.json#/zero_optimization"), HasSubstr("did you mean overlap_comm?")));
  EXPECT_THAT(error_of({{"zero_optimization", {{"offload_param", {{"devise", "cpu"}}}}}}),
              HasSubstr("ds.json#/zero_optimization/offload_param"));
}

TEST(Keys, RemovedOnesAreErrors) {
  EXPECT_THAT(error_of({{"amp", {{"enabled", false}}}}), HasSubstr("removed from DeepSpeed"));
  EXPECT_THAT(error_of({{"zero_optimization", {{"mics_shard_size", 8}}}}),
              HasSubstr("removed from DeepSpeed"));
}

TEST(Keys, IgnoredOnesAreWarnings) {
  EXPECT_THAT(read({{"train_batch_size", 8}, {"aio", {{"thread_count", 1}}}}).warnings,
              ElementsAre(HasSubstr("ds.json#/aio: DeepSpeed ignores the unknown key \"thread_count\"")));
}

/// The top level is not checked by DeepSpeed: such a file is planned as DeepSpeed reads it.
TEST(Keys, IgnoredOnesOfTheTopLevelAreWarnings) {
  const Json config = {{"_comment", "zero 2"},
                       {"gradient_checkpointing", true},
                       {"monitor_config", {{"enabled", true}}},
                       {"train_batch_size", 8}};
  EXPECT_THAT(read(config).warnings,
              ElementsAre(HasSubstr("ignores the unknown key \"gradient_checkpointing\""),
                          HasSubstr("ignores the unknown key \"monitor_config\"")));
}

TEST(Keys, DeprecatedOnesAreWarnings) {
  const Json config = {{"train_batch_size", 8}, {"zero_optimization", {{"stage", 2}, {"cpu_offload", true}}}};
  EXPECT_THAT(read(config).warnings, ElementsAre(HasSubstr("cpu_offload is deprecated: offload_optimizer")));
}

TEST(Keys, AutoThatNobodyFillsIsAWarning) {
  const Json config = {{"train_batch_size", 8},
                       {"zero_optimization", {{"stage", 3}, {"sub_group_size", "auto"}}}};
  EXPECT_THAT(read(config).warnings, ElementsAre(HasSubstr("DeepSpeed takes its default")));
  const Json filled = {{"train_batch_size", 8},
                       {"zero_optimization", {{"stage", 3}, {"reduce_bucket_size", "auto"}}}};
  EXPECT_THAT(read(filled).warnings, IsEmpty());
}

TEST(Keys, ArgumentsAreThoseOfTheOptimizer) {
  const auto optimizer = [](const char* type, Json params) {
    return Json{{"optimizer", {{"type", type}, {"params", std::move(params)}}}};
  };
  EXPECT_THAT(error_of(optimizer("AdamW", {{"learning_rate", 1e-4}})),
              HasSubstr("/optimizer/params: \"learning_rate\" is no argument of \"AdamW\""));
  EXPECT_THAT(error_of(optimizer("AdamW", {{"max_grad_norm", 1.0}})), HasSubstr("gradient_clipping"));
  EXPECT_THAT(error_of(optimizer("AdanW", Json::object())), HasSubstr("did you mean adamw?"));
  EXPECT_EQ(error_of(optimizer("adamw", {{"lr", 1e-4}})), "") << "DeepSpeed ignores case for its own";
  EXPECT_THAT(error_of(optimizer("sgd", {{"lr", 1e-4}})), HasSubstr("SGD")) << "torch's are spelled exactly";
}

}  // namespace
}  // namespace zplan::testing
