// Stored bytes of quantised weights, optimizer states and allocator slack, against what was measured.

#include <gtest/gtest.h>

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "planner/sharding/rank_model.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/allowances.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

TEST(QuantisedWeights, AreStoredAsBitsandbytesStoresThem) {
  std::size_t rows = 0;
  for (const Json& row : test_json("reference/quantised/stored.json")) {
    const Model model = read_config(JsonReader(row["config"], "measured model"));
    Training training;
    training.method = Method::qlora;
    training.quantization = parse_name<Quantization>("quantization", row["quantization"].get<std::string>());
    EXPECT_EQ(rank_model(model, training, 1).frozen_size.value, row["stored"].get<std::int64_t>())
        << row["model"] << " " << row["quantization"];
    ++rows;
  }
  EXPECT_GE(rows, 14U);
}

// Small tensors keep fp32 states under 8-bit Adam, and blocks end with a tensor: together below 0.01 %.
TEST(OptimizerStates, AreWhatTheOptimizersKeep) {
  std::size_t rows = 0;
  for (const Json& row : test_json("reference/quantised/optimizer_states.json")) {
    const Model model = read_config(JsonReader(row["config"], "measured model"));
    Training training;
    training.optimizer = parse_name<Optimizer>("optimizer", row["optimizer"].get<std::string>());
    const RankModel rank = rank_model(model, training, 1);
    const auto measured = row["state"].get<double>();
    EXPECT_NEAR(static_cast<double>(optimizer_states(rank, training, rank.trainable).value), measured,
                1e-3 * measured)
        << row["model"] << " " << row["optimizer"];
    ++rows;
  }
  EXPECT_GE(rows, 4U);
}

TEST(CublasWorkspaces, AreLargerFromHopperOn) {
  EXPECT_EQ(cublas_workspaces("8.0"), Bytes(2 * 8'519'680));
  EXPECT_EQ(cublas_workspaces("9.0"), kMiB * 64);
  EXPECT_EQ(cublas_workspaces("12.0"), kMiB * 64);
}

}  // namespace
}  // namespace zplan::testing
