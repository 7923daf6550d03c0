// resolve_batch against what the real DeepSpeed resolves (tests/reference/ds_config/batch.json).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.h"

namespace zplan::testing {
namespace {

using ::testing::HasSubstr;

Json config_of(const Json& given) {
  Json config = Json::object();
  const char* keys[] = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"};
  for (std::size_t i = 0; i < 3; ++i)
    if (!given[i].is_null()) config[keys[i]] = given[i];
  return config;
}

/// [train, micro, steps] as DeepSpeed reports it, or null where it stops.
Json resolved(const Json& config, std::int64_t world) {
  try {
    const Batch batch = resolve_batch(read(config), world);
    if (!batch.micro_batch_size) return nullptr;
    const std::int64_t steps = batch.gradient_accumulation_steps.value_or(1);
    return Json::array({*batch.micro_batch_size * steps * world, *batch.micro_batch_size, steps});
  } catch (const InputError&) {
    return nullptr;
  }
}

TEST(Batch, IsWhatDeepSpeedResolves) {
  const Json cases = test_json("reference/ds_config/batch.json");
  ASSERT_GT(cases.size(), 400u);
  for (const Json& each : cases)
    EXPECT_EQ(resolved(config_of(each["given"]), each["world"]), each["resolved"]) << each.dump();
}

TEST(Batch, GlobalBatchLeavesTensorParallelRanksOut) {
  const Json config = {{"train_batch_size", 64},
                       {"train_micro_batch_size_per_gpu", 2},
                       {"tensor_parallel", {{"autotp_size", 2}}}};
  EXPECT_EQ(resolve_batch(read(config), 8), (Batch{2, 4, 32}));
}

TEST(Batch, TrainerDecidesMicroBatchLeftToIt) {
  const Json config = {{"train_batch_size", 64}, {"train_micro_batch_size_per_gpu", "auto"}};
  EXPECT_EQ(resolve_batch(read(config), 8), (Batch{std::nullopt, std::nullopt, 64}));
}

TEST(Batch, ContradictionNamesTheKeyAndWhatWouldDo) {
  const Json config = {
      {"train_batch_size", 63}, {"train_micro_batch_size_per_gpu", 2}, {"gradient_accumulation_steps", 4}};
  try {
    (void)resolve_batch(read(config), 8);
    FAIL() << "63 is not 2 x 4 x 8";
  } catch (const InputError& error) {
    EXPECT_EQ(error.place(), "ds.json#/train_batch_size");
    EXPECT_THAT(error.what(), HasSubstr("a multiple of 16"));
  }
}

}  // namespace
}  // namespace zplan::testing
