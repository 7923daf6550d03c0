// States and steps of fourteen optimizers against what their libraries allocate.

#include "planner/sharding/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planner/torch_runs.h"

namespace zplan::testing {
namespace {

using ::testing::ElementsAre;

Training optimizer_training(const Json& row) {
  Training training;
  training.framework = Framework::torch;
  training.master_weights = false;
  training.optimizer = parse_name<Optimizer>("optimizer", row["optimizer"].get<std::string>());
  training.optimizer_kernel = parse_name<OptimizerKernel>("kernel", row["kernel"].get<std::string>());
  training.sequence_length = 256;
  training.wide_embedding_moments = false;  // no Trainer made these optimizers
  return training;
}

Bytes sum(const std::vector<Bytes>& blocks) {
  Bytes all{};
  for (const Bytes block : blocks) all += block;
  return all;
}

TEST(Optimizers, KeepAndTakeWhatTheirLibrariesDo) {
  std::size_t rows = 0;
  for (const Json& row : test_json("reference/optimizers/steps.json")) {
    SCOPED_TRACE(row["optimizer"].get<std::string>() + ", " + row["kernel"].get<std::string>());
    const Training training = optimizer_training(row);
    const RankRun run = torch_run(row["config"], training, {.zero_stage = 0});
    Bytes states = sum(shared_state_blocks(training));
    for (const OptimizerTensor& tensor : optimizer_tensors(run.rank(), training, run.strategy()))
      states += sum(optimizer_state_blocks(training, tensor));
    EXPECT_EQ(states.value, row["states"].get<std::int64_t>());
    EXPECT_EQ(paged_states(run.rank(), training, run.strategy()).value, row["managed"].get<std::int64_t>());
    const RunResult result = run.full();
    const Bytes step = result.phases[static_cast<std::size_t>(Phase::step)].requested;
    // Left out: means over rows and columns, and scalars.
    EXPECT_NEAR(static_cast<double>(step.value), row["step"].get<double>(), 1e-3 * row["step"].get<double>());
    EXPECT_NEAR(static_cast<double>(result.left.total().value), row["held"].get<double>(), 32 * 1024);
    ++rows;
  }
  EXPECT_EQ(rows, 14U);
}

TEST(PackedStates, LeaveSmallTensorsInFp32) {
  const Training training{.optimizer = Optimizer::adamw8bit};
  EXPECT_THAT(optimizer_state_blocks(training, Elements(4095), Bytes(2)),
              ElementsAre(Bytes(16'380), Bytes(16'380)));
  EXPECT_THAT(optimizer_state_blocks(training, Elements(4097), Bytes(2)),
              ElementsAre(Bytes(4097), Bytes(4097), Bytes(68), Bytes(68)));
}

// transformers' Trainer registers 32-bit states for every nn.Embedding: 1B of Unsloth's recorded full
// training holds 2,004 MiB for its embedding. torchao's 4-bit optimizers know no such list.
TEST(PackedStates, StayWideForEmbeddings) {
  Training training{.optimizer = Optimizer::adamw8bit};
  const OptimizerTensor table{.elements = Elements(8192), .element = Bytes(2), .embeds = true};
  EXPECT_THAT(optimizer_state_blocks(training, table), ElementsAre(Bytes(32'768), Bytes(32'768)));
  training.wide_embedding_moments = false;
  EXPECT_THAT(optimizer_state_blocks(training, table),
              ElementsAre(Bytes(8192), Bytes(8192), Bytes(128), Bytes(128)));
  training = {.optimizer = Optimizer::adamw4bit};
  EXPECT_EQ(optimizer_state_blocks(training, table).front(), Bytes(4096));
}

// Two values in a byte, a maximum of each 128, a table of 16; what makes no whole blocks has its own type.
// Source: torchao 0.18 optim/subclass_4bit.py, optim/adam.py _new_buffer.
TEST(PackedStates, AreFourBitsInWholeBlocks) {
  const Training training{.optimizer = Optimizer::adamw4bit};
  EXPECT_THAT(optimizer_state_blocks(training, Elements(8192), Bytes(2)),
              ElementsAre(Bytes(4096), Bytes(256), Bytes(64), Bytes(4096), Bytes(256), Bytes(64)));
  for (const std::int64_t whole : {3968, 4097})
    EXPECT_THAT(optimizer_state_blocks(training, Elements(whole), Bytes(2)),
                ElementsAre(Bytes(2 * whole), Bytes(2 * whole)));
  EXPECT_TRUE(shared_state_blocks(training).empty());
}

TEST(PackedStates, ArePagedFromAHundredThousandElements) {
  const Training training{.optimizer = Optimizer::paged_lion32bit};
  EXPECT_THAT(optimizer_state_blocks(training, Elements(99'999), Bytes(2)), ElementsAre(Bytes(399'996)));
  EXPECT_THAT(optimizer_state_blocks(training, Elements(100'000), Bytes(2)), ElementsAre());
}

TEST(Adafactor, FactorsEveryMatrixOfAStack) {
  const Training training{.optimizer = Optimizer::adafactor_torch};
  // Two experts of 3 × 5: rows of each, columns of each.
  const OptimizerTensor stack{.elements = Elements(30), .element = Bytes(2), .rows = 2, .columns = 5};
  EXPECT_THAT(optimizer_state_blocks(training, stack), ElementsAre(Bytes(2 * 6), Bytes(2 * 10)));
  const OptimizerTensor matrix{.elements = Elements(15), .element = Bytes(2), .rows = 3, .columns = 5};
  EXPECT_THAT(optimizer_state_blocks(training, matrix), ElementsAre(Bytes(2 * 3), Bytes(2 * 5)));
}

TEST(OptimizerNames, AreThoseThatTrainersTake) {
  EXPECT_EQ(from_name<Optimizer>("paged_adamw_8bit"), Optimizer::paged_adamw8bit);
  EXPECT_EQ(from_name<Optimizer>("adamw_bnb_8bit"), Optimizer::adamw8bit);
  EXPECT_EQ(from_name<Optimizer>("paged_lion_32bit"), Optimizer::paged_lion32bit);
  EXPECT_EQ(to_name(Optimizer::lion8bit), "lion8bit");
}

}  // namespace
}  // namespace zplan::testing
