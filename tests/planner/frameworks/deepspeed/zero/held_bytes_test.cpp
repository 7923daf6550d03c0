// Bytes that real DeepSpeed ranks held, against what the planner says they hold: equal, in every recorded
// run.

#include <gtest/gtest.h>

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "tests/planner/recorded_run.h"

namespace zplan::testing {
namespace {

class HeldBytes : public ::testing::TestWithParam<RecordedRun> {
 protected:
  [[nodiscard]] Shard shard_of(std::int64_t rank) const {
    const RecordedRun& run = GetParam();
    const RankModel model =
        rank_model(run.model, run.training, run.strategy.layout.tensor, rank % run.strategy.layout.tensor);
    return make_shard(model, run.training, run.strategy);
  }
};

TEST_P(HeldBytes, OfEveryRank) {
  const RecordedRun& run = GetParam();
  std::int64_t index = 0;
  for (const check::HeldBytes& rank : run.held) {
    const Shard shard = shard_of(index++);
    EXPECT_EQ(shard.parameters, rank.parameters) << "rank " << index - 1;
    EXPECT_EQ(shard.moments, rank.moments);
    EXPECT_EQ(shard.gradients, rank.gradients);
    EXPECT_EQ(shard.bucket, rank.bucket);
    EXPECT_EQ(shard.persistent_parameters, rank.persistent_parameters);
    EXPECT_EQ(rank.master_weights.value_or(shard.master_weights), shard.master_weights);
    EXPECT_EQ(rank.parameters_on_host.value_or(shard.parameters), shard.parameters);
    EXPECT_EQ(rank.master_weights.has_value(), run.strategy.zero_stage > 0);
  }
  EXPECT_EQ(static_cast<std::int64_t>(run.held.size()), run.strategy.layout.world());
}

const Json& first_rank(const RecordedRun& run) { return run.row["memory_per_rank"][0]; }

// Stage 0 keeps its fp32 copy in a plain list that no field names; it is everything in fp32 after the step
// without moments, step counters, rotary frequencies (d/2, kept twice if the model was not cast whole, as in
// the runs with adapters) and, in one run, a scalar that Python still holds.
TEST_P(HeldBytes, MasterWeightsOfStage0) {
  const RecordedRun& run = GetParam();
  const Json& rank = first_rank(run);
  if (run.strategy.zero_stage > 0 || !rank["snaps"].contains("gc_after_step")) return;
  const Json& counters = rank["after_step"]["optimizer_state"];
  const Shard shard = shard_of(0);
  const Bytes weights = run.training.precision == Precision::fp32 ? shard.parameters : Bytes{};
  const std::int64_t rotary =
      run.training.method == Method::full ? 2 * 4 * (run.model.shape.head_size / 2) : 0;
  const std::int64_t scalar = run.name == "tp4_dp1_s0_ga1_kv4" ? 4 : 0;
  const std::int64_t steps = counters.contains("step") ? counters["step"]["bytes"].get<std::int64_t>() : 0;
  EXPECT_EQ((shard.master_weights + shard.moments + weights).value + rotary + scalar + steps,
            rank["snaps"]["gc_after_step"]["float32"].get<std::int64_t>());
}

TEST_P(HeldBytes, BucketsDuringTheBackward) {
  const RecordedRun& run = GetParam();
  const Json& rank = first_rank(run);
  const std::int64_t seen = rank["grad_peak_sampled"].value("ipg_buffer", std::int64_t{0});
  // BF16_Optimizer reduces without a bucket of this kind, and stage 0 has none.
  const bool bucketless = rank["after_step"]["optimizer_class"] == "BF16_Optimizer";
  EXPECT_EQ(bucketless ? 0 : gradient_bucket(run.training, run.strategy).value, seen);
}

INSTANTIATE_TEST_SUITE_P(RecordedRuns, HeldBytes, ::testing::ValuesIn(recorded_runs()),
                         [](const auto& run) { return run.param.name; });

// The rank that holds most is the one that plans are made for.
TEST(WorstRank, IsRank0OfAnUnevenTensorParallelGroup) {
  for (const RecordedRun& run : recorded_runs()) {
    if (run.name != "tp4_dp1_s0_ga1_kv2") continue;
    Bytes most;
    for (const check::HeldBytes& held : run.held) most = std::max(most, held.parameters);
    const RankModel rank = rank_model(run.model, run.training, 4, 0);
    EXPECT_EQ(make_shard(rank, run.training, run.strategy).parameters, most);
    return;
  }
  FAIL() << "the uneven run is missing";
}

}  // namespace
}  // namespace zplan::testing
