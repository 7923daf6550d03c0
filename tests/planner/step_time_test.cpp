// Times worked out by hand: what is hidden, what is not, and over which link.

#include "planner/time/step_time.h"

#include <gtest/gtest.h>

#include "hardware_profiles/link_speed.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

/// A tiny model and a cluster in round numbers; only the ratios matter.
class StepTimes : public ::testing::Test {
 protected:
  StepTimes() {
    const Json shape = {{"hidden", 256}, {"layers", 3},   {"heads", 4},  {"kv", 4},
                        {"ffn", 704},    {"vocab", 1000}, {"tie", false}};
    model_ = tiny_llama(shape);
    cluster_.inside = {BytesPerSecond(1e9), BytesPerSecond(1e9), Seconds(0)};
    cluster_.gpu.pcie_effective = BytesPerSecond(1e9);
  }
  /// The time of a schedule of one data-parallel collective of `wire` bytes in `phase`.
  [[nodiscard]] StepTime with_collective(Strategy s, Phase phase, Bytes wire,
                                         Group group = Group::data) const {
    s.data_parallel = 8 / s.tensor_parallel;
    Schedule schedule;
    schedule.collectives.push_back(
        {Operation::all_gather, group, 8, phase, "bfloat16", "test", 1, {}, {}, wire});
    return step_time(model_, training_, s, cluster_, shard_, schedule);
  }
  /// A collective that takes `share` of the step's compute.
  [[nodiscard]] Bytes bytes_for(const Strategy& s, double share) const {
    return Bytes(static_cast<std::int64_t>(compute(s).value * share * 1e9));
  }
  [[nodiscard]] Seconds compute(const Strategy& s) const {
    return step_time(model_, training_, s, cluster_, shard_, {}).compute;
  }
  static void expect_near(Seconds actual, Seconds expected) {
    EXPECT_NEAR(actual.value, expected.value, 1e-9);
  }

  Model model_;
  Training training_;
  Cluster cluster_ = roomy_cluster(8);
  Shard shard_;
};

// 2·P + 4·L·a·d·s per token forward; P counts matrices of products, the head included, the embedding not.
TEST_F(StepTimes, FlopsAreCountedAsPaLMDoes) {
  const Strategy s;
  const double matrices = 3.0 * (4 * 256 * 256 + 3 * 256 * 704) + 256.0 * 1000;
  const double forward = (2 * matrices + 4.0 * 3 * 256 * 2048) * 2048;
  EXPECT_DOUBLE_EQ(micro_step_flops(model_, training_, s).model.value, 3 * forward);
  EXPECT_DOUBLE_EQ(micro_step_flops(model_, training_, s).hardware.value, 4 * forward);
}

TEST_F(StepTimes, Stage3HidesEachPassBehindItsOwnCompute) {
  const Strategy s{.zero_stage = 3};
  // The forward is a third: a gather as long as half of all compute sticks out by a sixth.
  expect_near(with_collective(s, Phase::forward, bytes_for(s, 0.5)).exposed_communication,
              compute(s) * (1.0 / 6));
  expect_near(with_collective(s, Phase::backward, bytes_for(s, 0.5)).exposed_communication, Seconds(0));
}

TEST_F(StepTimes, WithoutOverlapEverythingShows) {
  for (const int stage : {0, 1, 2}) {
    const Strategy s{.zero_stage = stage};
    expect_near(with_collective(s, Phase::backward, bytes_for(s, 0.5)).exposed_communication,
                compute(s) * 0.5);
  }
}

TEST_F(StepTimes, OverlapHidesReductionsButNotTheWeightsBehindTheOptimizer) {
  Strategy s{.zero_stage = 2};
  s.zero.overlap_comm = true;
  expect_near(with_collective(s, Phase::backward, bytes_for(s, 0.5)).exposed_communication, Seconds(0));
  expect_near(with_collective(s, Phase::step, bytes_for(s, 0.5)).exposed_communication, compute(s) * 0.5);
  s.zero_stage = 0;  // DeepSpeed reduces after the backward there, whatever overlap_comm says
  expect_near(with_collective(s, Phase::backward, bytes_for(s, 0.5)).exposed_communication, compute(s) * 0.5);
}

TEST_F(StepTimes, Stage1ReducesBehindTheLastBackwardAlone) {
  Strategy s{.zero_stage = 1, .gradient_accumulation_steps = 4};
  s.zero.overlap_comm = true;
  // The last of four backwards is a sixth of all compute.
  expect_near(with_collective(s, Phase::backward, bytes_for(s, 0.5)).exposed_communication,
              compute(s) * (0.5 - 1.0 / 6));
}

TEST_F(StepTimes, TensorParallelCollectivesNeverHide) {
  const Strategy s{.zero_stage = 3, .tensor_parallel = 2};
  expect_near(with_collective(s, Phase::forward, bytes_for(s, 0.1), Group::tensor).exposed_communication,
              compute(s) * 0.1);
}

// Two nodes of eight with one NIC of 10 GB/s per GPU: a single ring has all 80 GB/s, each of eight rings 10.
TEST_F(StepTimes, RingsSideBySideShareTheNetwork) {
  cluster_.nodes = 2, cluster_.gpus = 16;
  Network network;
  network.nics = 8;
  network.per_nic = BytesPerSecond(10e9);
  cluster_.network = network;
  cluster_.inside = {BytesPerSecond(300e9), BytesPerSecond(300e9), Seconds(0)};
  cluster_.between = speed_between(cluster_.gpu, {cluster_.inside, ""}, network, 2, 8).speed;
  const Bytes wire(80'000'000'000);
  const Strategy alone{.zero_stage = 1};
  const Strategy eight{.zero_stage = 1, .tensor_parallel = 8};
  expect_near(with_collective(alone, Phase::step, wire).communication, Seconds(1));
  expect_near(with_collective(eight, Phase::step, wire).communication, Seconds(8));
}

TEST_F(StepTimes, TransfersOutlastComputeOnlyOnce) {
  Strategy s{.zero_stage = 3, .offload_parameters = OffloadDevice::cpu};
  Schedule schedule;
  schedule.host_to_device = bytes_for(s, 3);
  const StepTime time = step_time(model_, training_, s, cluster_, shard_, schedule);
  expect_near(time.offload, compute(s) * 2);
  // The optimizer's share is nothing here: the step is as long as the transfer.
  expect_near(time.step - time.optimizer, compute(s) * 3);
}

}  // namespace
}  // namespace zplan::testing
