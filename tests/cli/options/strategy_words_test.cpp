#include "cli/options/strategy_words.h"

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
                                  .layout = {.tensor = degree},
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

TEST(StrategyWords, ReadsWhatDividesAndTilesTokens) {
  const Strategy ulysses{.zero_stage = 3,
                         .layout = {.sequence = 8},
                         .long_context = {.tiled_mlp = 4,
                                          .tiled_loss = LongContext::kAutoTiles,
                                          .checkpoint_offload = CheckpointOffload::host}};
  EXPECT_EQ(strategy_id(ulysses), "sp8+zero3+checkpoint-offload-alst+tiled-mlp4+tiled-loss");
  const PinnedStrategy read = parse_strategy(strategy_id(ulysses), Checkpointing::full);
  EXPECT_EQ(read.sequence_parallel, 8);
  EXPECT_EQ(read.long_context.tiled_mlp, 4);
  EXPECT_EQ(read.long_context.tiled_loss, LongContext::kAutoTiles);
  EXPECT_EQ(read.long_context.checkpoint_offload, CheckpointOffload::host);
  const Strategy ring{
      .zero_stage = 3, .layout = {.context = 4}, .long_context = {.rotation = KeyRotation::all_to_all}};
  EXPECT_EQ(plan_id(Framework::fsdp, ring), "cp4+fsdp+rotate-alltoall");
  const PinnedStrategy again = parse_strategy("cp4+fsdp+rotate-alltoall", Checkpointing::full);
  EXPECT_EQ(again.context_parallel, 4);
  EXPECT_EQ(again.long_context.rotation, KeyRotation::all_to_all);
  const Strategy hybrid{.zero_stage = 3, .layout = {.shard = 4, .replicate = 2}};
  EXPECT_EQ(plan_id(Framework::fsdp, hybrid), "fsdp+replicas2");
  EXPECT_EQ(parse_strategy("fsdp+replicas2", Checkpointing::full).replicas, 2);
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

TEST(StrategyWords, ReadsMethodAndBatch) {
  const PinnedStrategy read = parse_strategy("a8+lora+zero2+b4", Checkpointing::full);
  EXPECT_EQ(read.zero_stage, 2);
  EXPECT_EQ(read.method, Method::lora);
  EXPECT_EQ(read.micro_batch_size, 4);
  EXPECT_EQ(read.gradient_accumulation_steps, 8);
  EXPECT_FALSE(parse_strategy("zero2", Checkpointing::full).method);
}

/// A full name is read back as its strategy, whatever the default checkpointing is.
TEST(StrategyWords, FullNamesAreReadBack) {
  int count = 0;
  for (const auto& [otherwise, name] : EnumNames<Checkpointing>::table)
    for (const char* text :
         {"zero3", "lora+zero2+b4+a8", "b2+zero3+checkpointing-none", "qlora+ddp+a3",
          "full+tp2+zero1+checkpointing-full+b7", "fsdp+no-reshard+checkpointing-selective"}) {
      const PinnedStrategy strategy = parse_strategy(text, otherwise);
      const std::string id = plan_id(strategy.framework, {.zero_stage = strategy.zero_stage,
                                                          .layout = {.tensor = strategy.tensor_parallel},
                                                          .checkpointing = strategy.checkpointing});
      const std::string full = full_name(strategy, id, otherwise);
      EXPECT_EQ(parse_strategy(full, otherwise), strategy) << full << " of " << text;
      ++count;
    }
  EXPECT_EQ(count, 18);
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
                           "fsdp+no-reshard+no-reshard",
                           "b4",
                           "lora",
                           "zero3+b",
                           "zero3+b0",
                           "zero3+b4+b4",
                           "zero3+b-1",
                           "zero3+a99999999999999999999",
                           "zero3+bf16",
                           "lora+qlora+zero2",
                           "zero3+b2x"})
    EXPECT_THROW((void)parse_strategy(text, Checkpointing::full), InputError) << text;
}

}  // namespace
}  // namespace zplan
