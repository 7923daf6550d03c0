// FSDP2 and DistributedDataParallel, played, against what their runs asked the allocator for.

#include <gtest/gtest.h>

#include "planner/plan/legality.h"
#include "planner/sharding/optimizer_state.h"
#include "planner/simulation/allowances.h"
#include "planner/simulation/memory.h"
#include "tests/planner/torch_runs.h"

namespace zplan::testing {
namespace {

// Left out: the kernels' tables of splits (torch's split_with_sizes_copy) and scalars.
constexpr double kScalars = 64 * 1024;

TEST(TorchRuns, AskForWhatPyTorchAskedFor) {
  std::size_t rows = 0;
  for (const Json& row : test_json("reference/torch_runs/runs.json")) {
    SCOPED_TRACE(row["id"].get<std::string>());
    const RankRun run =
        torch_run(row["config"], torch_training(row["training"]), torch_strategy(row["strategy"]));
    const RunResult result = run.full();
    const Json& measured = row["measured"];
    for (const auto& [name, bytes] : measured["phases"].items()) {
      const Phase phase = parse_name<Phase>("phase", name);
      EXPECT_NEAR(static_cast<double>(result.phases[static_cast<std::size_t>(phase)].requested.value),
                  bytes.get<double>(), kScalars)
          << name;
    }
    EXPECT_EQ(to_name(result.peak.phase), measured["peak_phase"].get<std::string>());
    EXPECT_NEAR(static_cast<double>(result.left.total().value), measured["held"].get<double>(), kScalars);
    // Addresses of blocks depend on every earlier allocation, so they agree only if all of those do.
    EXPECT_NEAR(static_cast<double>(result.peak_reserved.value), measured["peak_reserved"].get<double>(),
                1e-3 * measured["peak_reserved"].get<double>());
    ++rows;
  }
  EXPECT_GE(rows, 10U);
}

TEST(FsdpShard, IsPaddedAlongTheFirstDimension) {
  const RankTensor matrix{.elements = Elements(7 * 3), .rows = 7, .columns = 3};
  EXPECT_EQ(fsdp_shard(matrix, 2), Elements(4 * 3));
  EXPECT_EQ(fsdp_shard(matrix, 8), Elements(3));
  const RankTensor vector{.elements = Elements(7), .rows = 7};
  EXPECT_EQ(fsdp_shard(vector, 4), Elements(2));
}

const Json kSmall = {{"model_type", "llama"},  {"hidden_size", 256},          {"intermediate_size", 512},
                     {"num_hidden_layers", 4}, {"num_attention_heads", 4},    {"num_key_value_heads", 2},
                     {"vocab_size", 1024},     {"tie_word_embeddings", false}};

Model small_model() { return read_config(JsonReader(kSmall, "small model")); }

/// Returns the bytes held between the steps of `strategy`.
Composition held(Training training, const Strategy& strategy) {
  training.framework = Framework::fsdp;
  training.sequence_length = 64;
  return torch_run(kSmall, training, strategy).full().left;
}

TEST(FsdpRun, HoldsShardsAndStatesBetweenSteps) {
  const Elements all = rank_model(small_model(), {}, 1).trainable;
  const Composition mixed = held({}, {.zero_stage = 3, .layout = {.shard = 4}});
  EXPECT_EQ(mixed[Term::trained_parameters], share(all, 4) * Bytes(4));
  EXPECT_EQ(mixed[Term::gathered_parameters], Bytes(0));
  EXPECT_EQ(mixed[Term::gradient_partition], Bytes(0));
  const Composition pure = held({.master_weights = false}, {.zero_stage = 3, .layout = {.shard = 4}});
  EXPECT_EQ(pure[Term::trained_parameters], share(all, 4) * Bytes(2));
  const Composition replicated = held({}, {.zero_stage = 3, .layout = {.shard = 2, .replicate = 2}});
  EXPECT_EQ(replicated[Term::trained_parameters], share(all, 2) * Bytes(4));
  EXPECT_EQ(replicated[Term::gradient_partition], Bytes(0));
  const Composition offloaded =
      held({}, {.zero_stage = 3, .layout = {.shard = 4}, .offload_parameters = OffloadDevice::cpu});
  EXPECT_EQ(offloaded[Term::trained_parameters] + offloaded[Term::optimizer_moments], Bytes(0));
}

std::size_t reasons(const Training& training, const Strategy& strategy) {
  return why_illegal(small_model(), training, strategy, {.gpus = 4, .gpus_per_node = 4}).size();
}

TEST(Frameworks, RefuseWhatTheyCannotDo) {
  const Training fsdp{.framework = Framework::fsdp};
  EXPECT_EQ(reasons(fsdp, {.zero_stage = 3, .layout = {.shard = 4}}), 0U);
  EXPECT_EQ(
      reasons(fsdp, {.zero_stage = 2, .layout = {.shard = 4}, .offload_parameters = OffloadDevice::cpu}), 0U);
  EXPECT_EQ(reasons(fsdp, {.zero_stage = 1, .layout = {.shard = 4}}), 1U);
  EXPECT_EQ(reasons(fsdp, {.zero_stage = 3, .layout = {.shard = 2, .replicate = 2}}), 0U);
  EXPECT_EQ(reasons(fsdp, {.zero_stage = 3, .layout = {.shard = 1, .replicate = 3}}), 1U);
  EXPECT_EQ(reasons({}, {.zero_stage = 3, .layout = {.shard = 2, .replicate = 2}}), 1U);
  EXPECT_EQ(reasons(fsdp, {.zero_stage = 3, .layout = {.tensor = 2, .shard = 2}}), 0U);
  EXPECT_EQ(reasons(fsdp, {.zero_stage = 2, .layout = {.tensor = 2, .shard = 2}}), 1U);
  EXPECT_EQ(
      reasons(fsdp, {.zero_stage = 3, .layout = {.shard = 4}, .offload_parameters = OffloadDevice::nvme}),
      1U);
  const Training torch{.framework = Framework::torch};
  EXPECT_EQ(reasons(torch, {.zero_stage = 0, .layout = {.shard = 4}}), 0U);
  EXPECT_EQ(reasons(torch, {.zero_stage = 3, .layout = {.shard = 4}}), 1U);
  const Training packed{.optimizer = Optimizer::adamw8bit, .framework = Framework::fsdp};
  EXPECT_EQ(
      reasons(packed, {.zero_stage = 3, .layout = {.shard = 4}, .offload_parameters = OffloadDevice::cpu}),
      1U);
}

TEST(Communicators, AreThoseOfTheGroupsThatSend) {
  using Ranks = std::vector<std::int64_t>;
  EXPECT_EQ(communicators({.zero_stage = 2, .layout = {.tensor = 2, .shard = 4}}, 8), (Ranks{8, 2}));
  EXPECT_EQ(communicators({.zero_stage = 3, .layout = {.shard = 4, .replicate = 2}}, 8), (Ranks{4, 2}));
  Strategy all{.zero_stage = 3, .layout = {.shard = 16}};
  all.zero.secondary_partition = 8, all.zero.quantized_gradients = true;
  EXPECT_EQ(communicators(all, 8), (Ranks{16, 1, 8, 8, 2}));
  EXPECT_EQ(communicators(all, 16), (Ranks{16, 1, 8}));
  // All-to-alls connect to every other GPU: 7 of the node, and over the network.
  Strategy reduced_whole = all;
  reduced_whole.zero.quantized_gradients = false;
  const auto more = [&](std::string_view card, std::int64_t per_node) {
    return outside_allocator(all, card, per_node) - outside_allocator(reduced_whole, card, per_node);
  };
  EXPECT_EQ(nccl_connections(7, "9.0"), kMiB * 14 * 32 * 7);  // 3.29 GB; 3.28 GB seen on eight H100
  EXPECT_EQ(more("9.0", 8), nccl_communicator(8, "9.0") + nccl_communicator(2, "9.0") +
                                nccl_connections(7, "9.0") + nccl_network_connections(1));
  EXPECT_EQ(more("8.9", 8), kMiB * 256 * 2 + kMiB * 14 * 2 * 7 + kMiB * 128);
  EXPECT_EQ(more("9.0", 16), Bytes{});  // on one node nothing is quantised
}

}  // namespace
}  // namespace zplan::testing
