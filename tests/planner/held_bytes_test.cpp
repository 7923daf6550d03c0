// Bytes that real DeepSpeed ranks held, against what the planner says they hold: equal, in every recorded
// run.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/planner/recorded_run.h"

namespace zplan::testing {
namespace {

class HeldBytes : public ::testing::TestWithParam<RecordedRun> {
 protected:
  [[nodiscard]] Shard shard_of(std::int64_t rank) const {
    const RecordedRun& run = GetParam();
    const RankModel model = rank_model(run.model, run.training, run.strategy.tensor_parallel,
                                       rank % run.strategy.tensor_parallel);
    return make_shard(model, run.training, run.strategy);
  }
};

std::int64_t bytes(const Json& rank, const char* key) { return rank[key].get<std::int64_t>(); }

TEST_P(HeldBytes, OfEveryRank) {
  const RecordedRun& run = GetParam();
  std::int64_t index = 0;
  for (const Json& rank : run.row["ranks"]) {
    const Shard shard = shard_of(index++);
    EXPECT_EQ(shard.parameters.value, bytes(rank, "parameters")) << "rank " << index - 1;
    EXPECT_EQ(shard.moments.value, bytes(rank, "moments"));
    EXPECT_EQ(shard.gradients.value, bytes(rank, "gradients"));
    EXPECT_EQ(shard.bucket.value, bytes(rank, "bucket_between_steps"));
    EXPECT_EQ(shard.persistent_parameters.value, bytes(rank, "persistent"));
    if (run.strategy.zero_stage > 0) {
      EXPECT_EQ(shard.master_weights.value, bytes(rank, "master"));
    }
    if (run.strategy.offload_parameters != OffloadDevice::none) {
      EXPECT_EQ(shard.parameters.value, bytes(rank, "parameters_on_host"));
    }
  }
}

// Stage 0 keeps its fp32 copy in a plain list that no field names; it is what is left of everything in fp32
// after the step: moments, step counters, the rotary frequencies (d/2, kept twice, where the model was not
// cast whole, as the runs with adapters were), and in one run a scalar that Python still holds.
TEST_P(HeldBytes, MasterWeightsOfStage0) {
  const RecordedRun& run = GetParam();
  const Json& rank = run.row["ranks"][0];
  if (run.strategy.zero_stage > 0 || rank["float32"].is_null()) return;
  const Shard shard = shard_of(0);
  const Bytes weights = run.training.precision == Precision::fp32 ? shard.parameters : Bytes{};
  const std::int64_t rotary =
      run.training.method == Method::full ? 2 * 4 * (run.model.shape.head_size / 2) : 0;
  const std::int64_t scalar = run.name == "tp4_dp1_s0_ga1_kv4" ? 4 : 0;
  EXPECT_EQ((shard.master_weights + shard.moments + weights).value + rotary + scalar +
                bytes(rank, "optimizer_step_counters"),
            bytes(rank, "float32"));
}

TEST_P(HeldBytes, BucketsDuringTheBackward) {
  const RecordedRun& run = GetParam();
  const std::int64_t seen = bytes(run.row["ranks"][0], "bucket_in_backward");
  // BF16_Optimizer reduces without a bucket of this kind, and stage 0 has none.
  const bool bucketless = run.row["optimizer_class"] == "BF16_Optimizer";
  EXPECT_EQ(bucketless ? 0 : gradient_bucket(run.training, run.strategy).value, seen);
}

INSTANTIATE_TEST_SUITE_P(RecordedRuns, HeldBytes, ::testing::ValuesIn(recorded_runs()),
                         [](const auto& run) { return run.param.name; });

// The rank that holds most is the one that plans are made for.
TEST(WorstRank, IsRank0OfAnUnevenTensorParallelGroup) {
  for (const RecordedRun& run : recorded_runs()) {
    if (run.name != "tp4_dp1_s0_ga1_kv2") continue;
    std::int64_t most = 0;
    for (const Json& rank : run.row["ranks"]) most = std::max(most, bytes(rank, "parameters"));
    const RankModel rank = rank_model(run.model, run.training, 4, 0);
    EXPECT_EQ(make_shard(rank, run.training, run.strategy).parameters.value, most);
    return;
  }
  FAIL() << "the uneven run is missing";
}

}  // namespace
}  // namespace zplan::testing
