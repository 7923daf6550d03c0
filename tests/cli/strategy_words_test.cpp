#include "cli/strategy_words.h"

#include <gtest/gtest.h>

#include "models/base/error.h"

namespace zplan {
namespace {

/// Every strategy that the planner can name is read back as itself.
TEST(StrategyWords, ReadsWhatThePlannerWrites) {
  int count = 0;
  for (int stage = 0; stage <= 3; ++stage)
    for (const std::int64_t degree : {1, 2, 8})
      for (const auto& [offload, offload_name] : EnumNames<Offload>::table)
        for (const auto& [checkpointing, checkpointing_name] : EnumNames<Checkpointing>::table) {
          const Strategy strategy{.zero_stage = stage,
                                  .tensor_parallel = degree,
                                  .offload_optimizer = offload.optimizer,
                                  .offload_parameters = offload.parameters,
                                  .checkpointing = checkpointing};
          const PinnedStrategy expected{Framework::deepspeed, stage, degree, offload, checkpointing};
          EXPECT_EQ(parse_strategy(strategy_id(strategy), Checkpointing::full), expected)
              << strategy_id(strategy);
          ++count;
        }
  EXPECT_EQ(count, 4 * 3 * static_cast<int>(EnumNames<Offload>::table.size()) * 3);
}

TEST(StrategyWords, ReadsWhatThePlannerWritesOfPyTorchsOwn) {
  using enum OffloadDevice;
  for (const auto& [framework, stage] :
       {std::pair{Framework::fsdp, 3}, std::pair{Framework::fsdp, 2}, std::pair{Framework::torch, 0}})
    for (const Offload offload : {Offload{none, none}, Offload{cpu, cpu}})
      for (const auto& [checkpointing, name] : EnumNames<Checkpointing>::table) {
        const Strategy strategy{.zero_stage = stage,
                                .offload_optimizer = offload.optimizer,
                                .offload_parameters = offload.parameters,
                                .checkpointing = checkpointing};
        const PinnedStrategy expected{framework, stage, 1, offload, checkpointing};
        EXPECT_EQ(parse_strategy(plan_id(framework, strategy), Checkpointing::full), expected) << name;
      }
}

TEST(StrategyWords, PartsComeInAnyOrder) {
  EXPECT_EQ(parse_strategy("zero1+tp4", Checkpointing::full),
            parse_strategy("tp4+zero1", Checkpointing::full));
}

TEST(StrategyWords, CheckpointingHoldsWhereItIsNotSaid) {
  EXPECT_EQ(parse_strategy("zero3", Checkpointing::none).checkpointing, Checkpointing::none);
  EXPECT_EQ(parse_strategy("zero3+checkpointing-full", Checkpointing::none).checkpointing,
            Checkpointing::full);
}

TEST(StrategyWords, RejectsEverythingElse) {
  for (const char* text : {"",
                           "+",
                           "zero",
                           "zero4",
                           "zero33",
                           "zero3+",
                           "+zero3",
                           "tp4",
                           "tp+zero1",
                           "tp0+zero1",
                           "tp-1+zero1",
                           "tp99999+zero1",
                           "zero3+zero2",
                           "zero3+offload-disk",
                           "zero3 +tp2",
                           "ZERO3",
                           "zero3+offload-all+offload-none",
                           "no-reshard",
                           "zero3+no-reshard",
                           "ddp+no-reshard",
                           "fsdp+zero3",
                           "fsdp+ddp",
                           "fsdp+fsdp",
                           "fsdp2",
                           "fsdp+no-reshard+no-reshard"})
    EXPECT_THROW((void)parse_strategy(text, Checkpointing::full), InputError) << text;
}

}  // namespace
}  // namespace zplan
