// Bytes by link and times by kind against what the run says, and against a ring.

#include "planner/cost/price.h"

#include <gtest/gtest.h>

#include "hardware_profiles/profiles.h"
#include "planner/plan/plan.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

struct Asked {
  std::int64_t nodes;
  const char* gpu;
  Strategy strategy;
};

class Prices : public ::testing::TestWithParam<Asked> {
 protected:
  Prices() {
    training_.sequence_length = 512;
    Strategy s = GetParam().strategy;
    s.layout.shard = 8 / s.layout.tensor;
    cluster_ =
        assemble_cluster({.gpu = GetParam().gpu, .gpus = 8, .nodes = GetParam().nodes}, built_in_profiles());
    plan_ = make_plan(model_, cluster_, training_, s);
  }

  Model model_ = tiny_llama({{"hidden", 512},
                             {"layers", 4},
                             {"heads", 8},
                             {"kv", 8},
                             {"ffn", 1024},
                             {"vocab", 32'000},
                             {"tie", false}});
  Training training_;
  Cluster cluster_;
  Plan plan_;
};

TEST_P(Prices, KindsAddUpToTheRunsCommunication) {
  Seconds sum;
  for (const Collective& each : plan_.communication().collectives) sum += each.time;
  EXPECT_NEAR(sum.value, plan_.time.communication.value, 1e-9 * sum.value + 1e-12);
}

TEST_P(Prices, TrafficHasAllCallsBytesAndWaits) {
  Traffic sum;
  for (const Traffic& each : traffic(plan_.communication(), plan_.time.run)) {
    EXPECT_LE(each.exposed.value, plan_.time.exposed_communication.value + 1e-12);
    sum.calls += each.calls, sum.inside += each.inside, sum.outside += each.outside;
    sum.exposed += each.exposed;
  }
  EXPECT_EQ(sum.calls, plan_.communication().calls());
  EXPECT_EQ(sum.inside, plan_.communication().inside_bytes_per_gpu());
  EXPECT_EQ(sum.outside, plan_.communication().outside_bytes_per_gpu());
  EXPECT_NEAR(sum.exposed.value, plan_.time.exposed_communication.value, 1e-9);
}

TEST_P(Prices, PhasesAddUpToWhatShows) {
  Seconds sum;
  for (const Phase phase : {Phase::forward, Phase::loss, Phase::backward, Phase::step})
    sum += exposed_in(plan_.time.run, phase);
  EXPECT_NEAR(sum.value, plan_.time.exposed_communication.value, 1e-12);
}

// Each call is rounded by at most one byte on either link; NVLS sends fewer bytes than a ring.
TEST_P(Prices, RingsSendWhatRingsSend) {
  for (const Collective& each : plan_.communication().collectives) {
    if (cluster_.nodes == 1) {
      EXPECT_EQ(each.outside_bytes_per_gpu, Bytes(0));
    }
    if (each.algorithm != CollectiveAlgorithm::ring && each.algorithm != CollectiveAlgorithm::tree) continue;
    EXPECT_GE((each.inside_bytes_per_gpu + each.outside_bytes_per_gpu).value,
              each.wire_bytes_per_gpu.value - 2 * each.count)
        << to_name(each.operation) << " of " << each.purpose;
  }
}

TEST_P(Prices, TensorParallelGroupsStayInTheirNode) {
  if (cluster_.gpus_per_node < GetParam().strategy.layout.tensor) return;
  for (const Collective& each : plan_.communication().collectives)
    if (each.group == Group::tensor) {
      EXPECT_EQ(each.outside_bytes_per_gpu, Bytes(0));
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, Prices,
    ::testing::Values(Asked{1, "A100-SXM-80GB", {.zero_stage = 3}},
                      Asked{2, "A100-SXM-80GB", {.zero_stage = 3}},
                      Asked{1, "RTX-4090-24GB", {.zero_stage = 2}},
                      Asked{2, "A100-SXM-80GB", {.zero_stage = 1, .layout = {.tensor = 2}}},
                      Asked{1, "H100-SXM-80GB", {.zero_stage = 0, .layout = {.tensor = 4}}},
                      Asked{2,
                            "H100-SXM-80GB",
                            {.zero_stage = 2, .layout = {.tensor = 2}, .gradient_accumulation_steps = 3}},
                      Asked{8, "H100-SXM-80GB", {.zero_stage = 3, .gradient_accumulation_steps = 2}}));

}  // namespace
}  // namespace zplan::testing
