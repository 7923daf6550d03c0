// The lanes of a step, compared with the times of the plan.

#include "planner/plan/step_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "hardware_profiles/cluster.h"
#include "models/catalogue/catalogue.h"
#include "planner/plan/plan.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

struct TraceCase {
  std::string name;
  Training training;
  Strategy strategy;
};
void PrintTo(const TraceCase& each, std::ostream* out) { *out << each.name; }

std::vector<TraceCase> trace_cases() {
  const auto strategy = [](int stage, std::int64_t data, std::int64_t tensor = 1,
                           std::int64_t micro_steps = 1) {
    Strategy made{.zero_stage = stage, .layout = {.tensor = tensor, .shard = data}};
    made.gradient_accumulation_steps = micro_steps;
    return made;
  };
  Training fsdp = with_framework(Training{}, Framework::fsdp), grpo;
  grpo.objective = Objective::grpo;
  Strategy offloaded = strategy(3, 4, 1, 2), sliced = strategy(2, 4);
  offloaded.offload_optimizer = offloaded.offload_parameters = OffloadDevice::cpu;
  sliced.offload_optimizer = OffloadDevice::cpu;
  return {{"Zero0", {}, strategy(0, 1)},
          {"Zero1FiveMicroSteps", {}, strategy(1, 4, 1, 5)},
          {"Zero2Offload", {}, sliced},
          {"Zero3", {}, strategy(3, 8)},
          {"Zero3FortyMicroSteps", {}, strategy(3, 4, 1, 40)},
          {"Zero3Offload", {}, offloaded},
          {"Tp4Zero1", {}, strategy(1, 2, 4, 3)},
          {"Fsdp", fsdp, strategy(3, 4, 1, 2)},
          {"Grpo", grpo, strategy(2, 4)}};
}

class StepTraces : public ::testing::TestWithParam<TraceCase> {
 protected:
  StepTraces() {
    const TraceCase& each = GetParam();
    model_ = resolve_model("Qwen/Qwen3-0.6B", {});
    cluster_ = roomy_cluster(each.strategy.layout.world());
    plan_ = make_plan(model_, cluster_, each.training, each.strategy);
    trace_ = step_trace(model_, cluster_, each.training, plan_);
  }
  [[nodiscard]] Seconds busy(TraceLane::Kind kind) const {
    Seconds sum;
    for (const TraceSpan& each : trace_.spans)
      if (trace_.lanes[each.lane].kind == kind) sum += each.until - each.from;
    return sum;
  }

  Model model_;
  Cluster cluster_;
  Plan plan_;
  StepTrace trace_;
};

constexpr double kSame = 1e-9;

TEST_P(StepTraces, EndWhenThePlanSays) {
  Seconds end;
  for (const TraceSpan& each : trace_.spans) end = std::max(end, each.until);
  EXPECT_EQ(trace_.step, plan_.time.step);
  EXPECT_NEAR(end.value, plan_.time.step.value, kSame * plan_.time.step.value + kSame);
}

TEST_P(StepTraces, HaveLanesWithoutOverlaps) {
  std::vector<Seconds> reached(trace_.lanes.size());
  std::vector<TraceSpan> spans = trace_.spans;
  std::ranges::stable_sort(spans, {}, &TraceSpan::from);
  for (const TraceSpan& each : spans) {
    EXPECT_GE(each.from.value, reached[each.lane].value - kSame) << each.name;
    EXPECT_GT(each.until, each.from) << each.name;
    reached[each.lane] = each.until;
  }
}

TEST_P(StepTraces, AreAsBusyAsThePlanSays) {
  if (trace_.left_out > 0) return;  // a gap stands for micro-steps that are alike
  const StepTime& time = plan_.time;
  const Seconds kernels = time.compute + time.optimizer;
  EXPECT_NEAR(busy(TraceLane::Kind::compute).value, kernels.value, 1e-6 * kernels.value);
  EXPECT_NEAR(busy(TraceLane::Kind::communicator).value, time.communication.value,
              1e-3 * time.communication.value);
  const Seconds offload = busy(TraceLane::Kind::copies) + busy(TraceLane::Kind::optimizer);
  EXPECT_NEAR(offload.value, time.offload.value, kSame);
  EXPECT_NEAR(busy(TraceLane::Kind::engine).value, (time.generation + time.scoring).value, kSame);
}

TEST_P(StepTraces, NameLayersAndMicroSteps) {
  int deepest = -1;
  std::int64_t last = 0;
  for (const TraceSpan& each : trace_.spans) {
    deepest = std::max(deepest, each.layer), last = std::max(last, each.micro_step);
    EXPECT_FALSE(each.name.empty());
  }
  EXPECT_EQ(deepest, 27);
  EXPECT_EQ(last, plan_.strategy.gradient_accumulation_steps);
}

INSTANTIATE_TEST_SUITE_P(All, StepTraces, ::testing::ValuesIn(trace_cases()),
                         [](const auto& each) { return each.param.name; });

/// A plan of stages, of Qwen3-8B on H100-like GPUs: 16 micro-batches.
struct StagedCase {
  std::string name;
  Framework framework{Framework::megatron};
  std::int64_t virtual_stages{1};
  PipelineSchedule schedule{PipelineSchedule::one_forward_one_backward};  ///< of torchtitan
  bool knows_micro_steps{true};  ///< chunks that are alike are not told apart
};
void PrintTo(const StagedCase& each, std::ostream* out) { *out << each.name; }

class StagedTraces : public ::testing::TestWithParam<StagedCase> {
 protected:
  static constexpr std::int64_t kStages = 4, kMicroBatches = 16;

  StagedTraces() {
    const StagedCase& each = GetParam();
    const Model model = resolve_model("Qwen/Qwen3-8B", {});
    const Cluster cluster = roomy_cluster(kStages);
    Training training = with_framework({}, each.framework);
    Strategy strategy{.layout = {.pipeline = kStages, .virtual_stages = each.virtual_stages}};
    if (each.framework == Framework::megatron) strategy.megatron = recommended_megatron_options();
    if (each.framework == Framework::torchtitan) strategy.torchtitan.emplace().schedule = each.schedule;
    strategy.checkpointing = Checkpointing::none;
    strategy.gradient_accumulation_steps = kMicroBatches;
    const Plan plan = make_plan(model, cluster, training, strategy);
    trace_ = step_trace(model, cluster, training, plan);
  }
  /// Returns the floating-point operations of a pass's kernels.
  [[nodiscard]] double flops(Phase phase) const {
    double sum = 0;
    for (const TraceSpan& each : trace_.spans)
      if (trace_.lanes[each.lane].kind == TraceLane::Kind::compute && each.phase == phase) sum += each.flops;
    return sum;
  }

  StepTrace trace_;
};

TEST_P(StagedTraces, TellForwardsFromBackwards) {
  // A product has two in the backward, and attention 2.5 times as many operations.
  const double forward = flops(Phase::forward) + flops(Phase::loss);
  EXPECT_GT(flops(Phase::backward) + flops(Phase::loss_backward), 1.99 * forward);
  EXPECT_LT(flops(Phase::backward) + flops(Phase::loss_backward), 2.2 * forward);
}

TEST_P(StagedTraces, NumberMicroSteps) {
  std::map<std::int64_t, int> spans;
  for (const TraceSpan& each : trace_.spans)
    if (trace_.lanes[each.lane].kind == TraceLane::Kind::compute && each.phase != Phase::step)
      ++spans[each.micro_step];
  if (!GetParam().knows_micro_steps) {
    EXPECT_EQ(spans.size(), 1U);
    EXPECT_TRUE(spans.contains(0));
    return;
  }
  EXPECT_EQ(spans.size(), static_cast<std::size_t>(kMicroBatches));
  EXPECT_EQ(spans.begin()->first, 1);
  EXPECT_EQ(spans.rbegin()->first, kMicroBatches);
}

INSTANTIATE_TEST_SUITE_P(
    All, StagedTraces,
    ::testing::Values(StagedCase{.name = "Megatron"},
                      StagedCase{
                          .name = "MegatronInterleaved", .virtual_stages = 3, .knows_micro_steps = false},
                      StagedCase{.name = "Torchtitan", .framework = Framework::torchtitan},
                      StagedCase{.name = "TorchtitanZeroBubble",
                                 .framework = Framework::torchtitan,
                                 .virtual_stages = 2,
                                 .schedule = PipelineSchedule::zero_bubble_v,
                                 .knows_micro_steps = false}),
    [](const auto& each) { return each.param.name; });

TEST(StepTrace, LeavesOutMicroStepsThatAreAlike) {
  const Model model = resolve_model("Qwen/Qwen3-0.6B", {});
  const Cluster cluster = roomy_cluster(1);
  Strategy strategy{.zero_stage = 0, .layout = {.shard = 1}};
  strategy.gradient_accumulation_steps = 100;
  const Plan plan = make_plan(model, cluster, {}, strategy);
  EXPECT_EQ(step_trace(model, cluster, {}, plan).left_out, 98 - kMostWrittenMicroSteps);
}

}  // namespace
}  // namespace zplan::testing
