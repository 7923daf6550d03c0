// GPUs tried by what a run asked of the allocator, against the run played on each of them.

#include "planner/simulation/gpu_trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "models/catalogue/catalogue.h"
#include "planner/plan/rank_run.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

struct TrialCase {
  std::string name;
  Training training;
  Strategy strategy;
};
void PrintTo(const TrialCase& each, std::ostream* out) { *out << each.name; }

std::vector<TrialCase> trial_cases() {
  Training expandable;
  expandable.expandable_segments = true;
  Training lora;
  lora.method = Method::lora;
  Training fsdp;
  fsdp.framework = Framework::fsdp;
  const auto strategy = [](int stage, std::int64_t accumulation = 1) {
    return Strategy{.zero_stage = stage,
                    .layout = {.shard = 8},
                    .micro_batch_size = 2,
                    .gradient_accumulation_steps = accumulation};
  };
  return {{"Zero0", {}, strategy(0)},
          {"Zero1", {}, strategy(1, 2)},
          {"Zero2", {}, strategy(2, 4)},
          {"Zero3", {}, strategy(3, 2)},
          {"Zero3Lora", lora, strategy(3)},
          {"Zero2Expandable", expandable, strategy(2)},
          {"Zero3Expandable", expandable, strategy(3)},
          {"Fsdp", fsdp, strategy(3)}};
}

class Trials : public ::testing::TestWithParam<TrialCase> {
 protected:
  /// From what is live to what a GPU without limit reserves, in twenty steps.
  [[nodiscard]] static std::vector<Bytes> sizes(const RunResult& unlimited) {
    const Bytes low = unlimited.peak_allocated, high = unlimited.peak_reserved;
    std::vector<Bytes> all;
    for (std::int64_t i = -2; i <= 20; ++i) all.push_back(low + Bytes((high - low).value * i / 20));
    return all;
  }

  Model model_ = resolve_model("Qwen/Qwen3-0.6B", {});
  Training training_ = GetParam().training;
  Strategy strategy_ = GetParam().strategy;
  RankRun run_{model_, training_, strategy_, {.compute_capability = "9.0"}};
};

TEST_P(Trials, EndAsTheRunDoes) {
  const RunInputs inputs = run_.inputs();
  const RunResult unlimited = run_.full();
  int ran = 0, failed = 0;
  for (const Bytes pool : sizes(unlimited)) {
    const Bytes usable = pool + run_.outside();
    const bool runs = run_.on(usable).completed;
    (runs ? ran : failed) += 1;
    EXPECT_EQ(GpuTrials(inputs, unlimited).completes_on(usable), runs) << usable.value;
  }
  EXPECT_GT(ran, 0);
  EXPECT_GT(failed, 0);
}

// One trial goes on from another: in whatever order they come.
TEST_P(Trials, EndAlikeInEveryOrder) {
  const RunResult unlimited = run_.full();
  std::vector<Bytes> all = sizes(unlimited);
  std::map<Bytes, bool> completed;
  for (const Bytes pool : all) completed[pool] = run_.on(pool + run_.outside()).completed;
  std::mt19937 random(7);
  const auto expect_alike = [&](std::string_view order) {
    CapacityTrials trial(unlimited.asked, {.expandable_segments = training_.expandable_segments});
    for (const Bytes pool : all)
      EXPECT_EQ(trial.completes_within(pool), completed[pool]) << pool.value << " in " << order;
  };
  expect_alike("ascending order");
  std::reverse(all.begin(), all.end());
  expect_alike("descending order");
  for (int i = 0; i < 4; ++i) std::shuffle(all.begin(), all.end(), random), expect_alike("random order");
}

// A trial goes on from where the run without limit took more than was watched for; a smaller GPU starts anew.
TEST_P(Trials, GoOnFromTheRunWithoutLimit) {
  const RunResult unlimited = run_.full();
  EXPECT_FALSE(unlimited.before_more.has_value());
  const std::vector<Bytes> all = sizes(unlimited);
  for (const Bytes watched : all) {
    RunInputs inputs = run_.inputs();
    inputs.watched = watched;
    const RunResult played = simulate(inputs);
    if (!training_.expandable_segments) {
      EXPECT_EQ(played.before_more.has_value(), watched < unlimited.peak_reserved) << watched.value;
    }
    CapacityTrials trial(played.asked, {.expandable_segments = training_.expandable_segments},
                         played.before_more);
    for (const Bytes pool : all)
      EXPECT_EQ(trial.completes_within(pool), run_.on(pool + run_.outside()).completed)
          << pool.value << " where " << watched.value << " were watched";
  }
}

// A run that tells of every request plays all of its steps, others leave out those that are alike.
TEST_P(Trials, StepsThatAreAlikeChangeNothing) {
  const RunResult short_run = run_.full();
  std::vector<BlockRequest> requests;
  RunInputs inputs = run_.inputs();
  inputs.requests = &requests;
  const RunResult whole = simulate(inputs);
  EXPECT_EQ(short_run.peak, whole.peak);
  EXPECT_EQ(short_run.phases, whole.phases);
  EXPECT_EQ(short_run.peak_allocated, whole.peak_allocated);
  EXPECT_EQ(short_run.peak_reserved, whole.peak_reserved);
  EXPECT_EQ(short_run.held, whole.held);
  EXPECT_EQ(short_run.left, whole.left);
  EXPECT_EQ(short_run.timeline, whole.timeline);
  EXPECT_EQ(short_run.calls, whole.calls);
  EXPECT_EQ(short_run.program, whole.program);
  ASSERT_EQ(short_run.asked.size(), whole.asked.size());
  EXPECT_GT(short_run.asked.steps().size(), 2U);
}

// The run that starts on the host is put together from two traces, not played.
TEST_P(Trials, StartOnTheHostAsTheRunDoes) {
  const RunInputs inputs = run_.inputs();
  const RunResult unlimited = run_.full();
  if (!unlimited.flattening) {
    EXPECT_EQ(unlimited.least_start.size(), 0U);
    return;
  }
  ASSERT_TRUE(unlimited.asked.started_as(unlimited.least_start).has_value());
  const RunResult played = simulate_flattening_on_host(inputs);
  GpuTrials gpus(inputs, unlimited);
  EXPECT_EQ(gpus.on_host().peak_allocated, played.peak_allocated);
  EXPECT_EQ(gpus.on_host().peak_reserved, played.peak_reserved);
  EXPECT_EQ(gpus.on_host().asked.size(), played.asked.size());
}

INSTANTIATE_TEST_SUITE_P(Runs, Trials, ::testing::ValuesIn(trial_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zplan::testing
