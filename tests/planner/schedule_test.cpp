// Collectives that real DeepSpeed issued, against the planner's schedule.

#include "planner/communication/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/planner/recorded_run.h"

namespace zplan::testing {
namespace {

/// operation, dtype, group size, phase
using Key = std::tuple<std::string, std::string, std::int64_t, std::string>;

/// Elements per kind of call as nccl-tests counts them: output of a gather, input of a scatter.
std::map<Key, std::int64_t> recorded_elements(const RecordedRun& run) {
  std::map<Key, std::int64_t> sums;
  for (const check::CallTally& call : run.calls)
    sums[{std::string(to_name(call.operation)), call.dtype, call.group_size,
          std::string(to_name(call.phase))}] += call.elements.value;
  return sums;
}

std::map<Key, std::int64_t> planned_elements(const RecordedRun& run) {
  const RankModel rank = rank_model(run.model, run.training, run.strategy.tensor_parallel);
  const Schedule plan =
      schedule(run.model, run.training, run.strategy, rank, make_shard(rank, run.training, run.strategy));
  std::map<Key, std::int64_t> sums;
  for (const Collective& c : plan.collectives)
    sums[{std::string(to_name(c.operation)), std::string(c.dtype), c.group_size,
          std::string(to_name(c.phase))}] += c.elements.value;
  return sums;
}

/// What this version plans: DeepSpeed's defaults in every stage, adapters, accumulation, buckets of any size,
/// offload, AutoTP, and ZeRO-3 where max_reuse_distance has its default. Not yet: communication in another
/// dtype, reduce to owners, reduce_scatter off, hierarchical partitions, fp32 accumulation, another
/// max_reuse_distance, AutoTP with ZeRO-3, with reentrant checkpointing, with a vocabulary-parallel head that
/// is not tied, or with uneven heads.
bool is_planned(const RecordedRun& run) {
  const Json& config = run.row["ds_config"];
  const Json& zero = config["zero_optimization"];
  const bool odd_knobs =
      config.contains("communication_data_type") || !zero.value("use_multi_rank_bucket_allreduce", true) ||
      zero.value("stage3_use_all_reduce_for_fetch_params", false) ||
      zero.value("zero_hpz_partition_size", 1) != 1 || run.strategy.zero.fp32_gradient_accumulation;
  const bool scatter_off = run.strategy.zero_stage == 3 && !zero.value("reduce_scatter", true);
  const bool partial =
      run.strategy.zero_stage == 3 && run.strategy.zero.max_reuse_distance.value != 1'000'000'000;
  const bool reentrant_tensor_parallel =
      run.strategy.tensor_parallel > 1 && run.training.reentrant_checkpointing;
  const bool vocabulary_parallel = run.name.find("vocabpar") != std::string::npos;
  const bool uneven = run.name == "tp4_dp1_s0_ga1_kv2";
  const bool tensor_parallel_zero3 = run.strategy.tensor_parallel > 1 && run.strategy.zero_stage == 3;
  return !odd_knobs && !scatter_off && !partial && !reentrant_tensor_parallel && !vocabulary_parallel &&
         !uneven && !tensor_parallel_zero3;
}

class RecordedSchedule : public ::testing::TestWithParam<RecordedRun> {};

TEST_P(RecordedSchedule, ElementsPerOperationGroupAndPhase) {
  EXPECT_EQ(planned_elements(GetParam()), recorded_elements(GetParam()));
}

std::vector<RecordedRun> planned_runs() {
  std::vector<RecordedRun> runs;
  for (RecordedRun& run : recorded_runs())
    if (is_planned(run)) runs.push_back(std::move(run));
  return runs;
}

INSTANTIATE_TEST_SUITE_P(RecordedRuns, RecordedSchedule, ::testing::ValuesIn(planned_runs()),
                         [](const auto& run) { return run.param.name; });

TEST(RecordedSchedule, CoversMostRuns) { EXPECT_GE(planned_runs().size(), 128U); }

TEST(RingWireBytes, AsNcclTestsDerivesThem) {
  const Bytes size(1'000'000);
  EXPECT_EQ(ring_wire_bytes(Operation::all_reduce, size, 4), Bytes(1'500'000));
  EXPECT_EQ(ring_wire_bytes(Operation::all_gather, size, 4), Bytes(750'000));
  EXPECT_EQ(ring_wire_bytes(Operation::reduce_scatter, size, 5), Bytes(800'000));
  EXPECT_EQ(ring_wire_bytes(Operation::broadcast, size, 4), size);
  EXPECT_EQ(ring_wire_bytes(Operation::all_reduce, size, 1), Bytes(0));
}

}  // namespace
}  // namespace zplan::testing
