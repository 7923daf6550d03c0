// The calls of a step written out, against what the same step is summed up to.

#include "planner/cost/step_calls.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "models/catalogue/catalogue.h"
#include "planner/cost/cost_model.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_context.h"
#include "planner/plan/rank_run.h"
#include "planner/simulation/run.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

struct StepCase {
  std::string name;
  std::string model;
  Training training;
  Strategy strategy;
  std::int64_t gpus{8}, nodes{1};
};
void PrintTo(const StepCase& each, std::ostream* out) { *out << each.name; }

Strategy strategy(int stage, std::int64_t data, std::int64_t tensor = 1, std::int64_t micro_steps = 1) {
  Strategy made{.zero_stage = stage, .layout = {.tensor = tensor, .shard = data}};
  made.gradient_accumulation_steps = micro_steps;
  return made;
}

std::vector<StepCase> step_cases() {
  const std::string llama = "meta-llama/Meta-Llama-3-8B", small = "Qwen/Qwen3-0.6B";
  Training lora, qlora, fsdp, torch;
  lora.method = Method::lora, qlora.method = Method::qlora;
  fsdp.framework = Framework::fsdp, torch.framework = Framework::torch;
  Strategy several = strategy(2, 4, 1, 4), offloaded = strategy(3, 8, 1, 2), owners = strategy(2, 8);
  several.zero.multi_rank_bucket_allreduce = false;
  owners.zero.multi_rank_bucket_allreduce = false, owners.zero.overlap_comm = true;
  offloaded.offload_optimizer = offloaded.offload_parameters = OffloadDevice::cpu;
  return {{"Zero0", small, {}, strategy(0, 8)},
          {"Zero0FourMicroSteps", small, {}, strategy(0, 8, 1, 4)},
          {"Zero1", llama, {}, strategy(1, 8)},
          {"Zero1FiveMicroSteps", small, {}, strategy(1, 5, 1, 5), 5},
          {"Zero2", llama, {}, strategy(2, 16), 16, 2},
          {"Zero2Owners", small, {}, owners},
          {"Zero2OwnersFourMicroSteps", small, {}, several, 4},
          {"Zero3", llama, {}, strategy(3, 16), 16, 2},
          {"Zero3TwoMicroSteps", small, {}, strategy(3, 8, 1, 2)},
          {"Zero3ThirtyMicroSteps", small, {}, strategy(3, 8, 1, 30)},
          {"Zero3Offload", llama, {}, offloaded},
          {"Tp4Zero1", llama, {}, strategy(1, 2, 4, 3)},
          {"Tp8Zero0", llama, {}, strategy(0, 1, 8)},
          {"LoraZero2", small, lora, strategy(2, 8, 1, 4)},
          {"LoraZero3", "Qwen/Qwen3-30B-A3B", lora, strategy(3, 8)},
          {"QloraZero1", small, qlora, strategy(1, 8)},
          {"Fsdp", llama, fsdp, strategy(3, 8, 1, 4)},
          {"Ddp", small, torch, strategy(0, 4, 1, 3), 4}};
}

class IssuedSteps : public ::testing::TestWithParam<StepCase> {
 protected:
  IssuedSteps()
      : model_(resolve_model(GetParam().model, {})),
        cluster_(cluster()),
        context_(model_, cluster_, GetParam().training, {}) {}
  static Cluster cluster() {
    ClusterRequest request;
    request.gpu = "H100-SXM-80GB", request.gpus = GetParam().gpus, request.nodes = GetParam().nodes;
    return assemble_cluster(request, built_in_profiles());
  }

  Model model_;
  Cluster cluster_;
  PlanContext context_;
};

TEST_P(IssuedSteps, AddUpToWhatThePlanSaysOfEveryKind) {
  const Plan plan = context_.complete(GetParam().strategy);
  const StepCalls step = context_.calls(GetParam().strategy);
  ASSERT_TRUE(step.complete);
  std::int64_t counted = 0;
  for (const Collective& kind : plan.communication().collectives) {
    std::int64_t count = 0, elements = 0, bytes = 0;
    double seconds = 0;
    for (const IssuedCall& each : step.calls) {
      if (!is_of_kind(each.call, kind)) continue;
      count += each.call.times, elements += each.call.times * each.call.elements.value;
      bytes += each.call.times * (each.call.elements * each.call.element).value;
      seconds += static_cast<double>(each.call.times) * each.time.value;
    }
    EXPECT_EQ(count, kind.count) << to_name(kind.operation) << " " << kind.purpose;
    EXPECT_EQ(elements, kind.elements.value) << to_name(kind.operation) << " " << kind.purpose;
    EXPECT_EQ(bytes, kind.bytes.value) << to_name(kind.operation) << " " << kind.purpose;
    EXPECT_NEAR(seconds, kind.time.value, 1e-9 * kind.time.value) << to_name(kind.operation);
    counted += count;
  }
  EXPECT_GT(counted, 0);
  std::int64_t issued = 0;
  for (const IssuedCall& each : step.calls) issued += each.call.times;
  EXPECT_EQ(issued, counted);
}

TEST_P(IssuedSteps, LeaveOfTheStepWhatItWaitsForCollectives) {
  const Plan plan = context_.complete(GetParam().strategy);
  const StepCalls step = context_.calls(GetParam().strategy);
  double own = step.compute_behind.value;
  for (const IssuedCall& each : step.calls) own += each.compute.value * static_cast<double>(each.call.times);
  const RunTime& run = plan.time.run;
  EXPECT_NEAR(own, run.step.value - run.exposed_communication().value, 1e-6 * run.step.value);
  EXPECT_NEAR(step.communication().value, run.communication.value, 1e-9 * run.communication.value);
}

TEST_P(IssuedSteps, AreFolded) {
  const StepCalls step = context_.calls(GetParam().strategy);
  for (std::size_t i = 1; i < step.calls.size(); ++i) {
    IssuedCall a = step.calls[i - 1], b = step.calls[i];
    a.call.times = b.call.times = 1;
    EXPECT_NE(a, b) << i;
  }
}

/// A rank's traffic and time do not depend on its slice: all ranks take part in every call.
TEST_P(IssuedSteps, AreTheSameOnEveryRank) {
  const Strategy& strategy = GetParam().strategy;
  if (strategy.zero_stage != 1 && strategy.zero_stage != 2) return;
  const RankRun first = context_.run(strategy);
  const RunResult first_played = first.live();
  for (std::int64_t rank = 1; rank < strategy.layout.data_ranks(); ++rank) {
    const RankRun other(model_, GetParam().training, strategy, RankRun::target_of(cluster_),
                        rank * strategy.layout.tensor);
    ASSERT_NE(other.slice(), first.slice());
    const RunResult played = other.live();
    EXPECT_EQ(played.calls, first_played.calls) << rank;
    EXPECT_EQ(played.program, first_played.program) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, IssuedSteps, ::testing::ValuesIn(step_cases()),
                         [](const auto& each) { return each.param.name; });

/// AutoTP leaves the norms of queries and keys whole; where these have a row for each head they do not go
/// with the heads of one rank.
TEST(TensorParallelism, IsNotForNormsWithARowForEachHead) {
  const Strategy split{.zero_stage = 1, .layout = {.tensor = 8, .shard = 1}};
  const auto legal = [&](const char* name) {
    return why_illegal(resolve_model(name, {}), {}, split, {8, 8}).empty();
  };
  EXPECT_TRUE(legal("CohereLabs/c4ai-command-r-v01"));
  EXPECT_FALSE(legal("CohereLabs/c4ai-command-r-plus"));
}

/// A tape of one load that takes a second.
class Written : public ::testing::Test {
 protected:
  Written() {
    cluster_.gpu.bf16 = FlopsPerSecond(1e12);
    cluster_.gpu.efficiency = Efficiency{.products = 1, .attention = 1, .memory = 1};
    Load second;
    second.attention_forward = Flops(1e12);
    tape_.loads = {second};
    clock_.begin_step();
  }
  [[nodiscard]] StepCalls calls(std::int64_t micro_steps = 1) const {
    CostModel cost_model(tape_, cluster_, training_, strategy_);
    return step_calls(clock_.program(), cost_model, micro_steps);
  }
  [[nodiscard]] Instant issue(std::int64_t elements) {
    return clock_.issue({.operation = Operation::all_gather,
                         .group_size = 8,
                         .dtype = "bfloat16",
                         .element = Bytes(2),
                         .purpose = "test",
                         .elements = Elements(elements)},
                        clock_.computed());
  }

  Tape tape_;
  Cluster cluster_ = roomy_cluster(8);
  Training training_;
  Strategy strategy_{.layout = {.shard = 8}};
  Clock clock_;
};

TEST_F(Written, ACallThatIsWaitedForAtOnceIsExposed) {
  clock_.compute(0);
  const Instant hidden = issue(1000);
  clock_.compute(0);
  const Instant shown = issue(2000);
  clock_.wait(shown, Phase::backward);
  clock_.wait(hidden, Phase::backward);
  clock_.compute(0);
  const StepCalls step = calls();
  ASSERT_EQ(step.calls.size(), 2U);
  EXPECT_FALSE(step.calls[0].exposed);
  EXPECT_TRUE(step.calls[1].exposed);
  EXPECT_NEAR(step.calls[0].compute.value, 1, 1e-9);
  EXPECT_NEAR(step.calls[1].compute.value, 1, 1e-9);
  EXPECT_NEAR(step.compute_behind.value, 1, 1e-9);
}

TEST_F(Written, CallsAlikeWithoutWorkBetweenAreOne) {
  clock_.compute(0);
  for (int i = 0; i < 4; ++i) (void)issue(1000);
  const StepCalls step = calls();
  ASSERT_EQ(step.calls.size(), 2U);
  EXPECT_NEAR(step.calls[0].compute.value, 1, 1e-9);
  EXPECT_EQ(step.calls[1].call.times, 3);
  EXPECT_EQ(step.calls[1].compute, Seconds(0));
}

/// Five micro-steps, of which the three between the first and the last are played once.
TEST_F(Written, AMicroStepThatStandsForOthersComesAsOften) {
  const auto micro_step = [this](std::int64_t elements) {
    clock_.compute(0);
    (void)issue(elements);
    clock_.compute(0), clock_.compute(0);
  };
  micro_step(1);
  clock_.begin_repeated();
  micro_step(2);
  clock_.end_repeated();
  micro_step(3);
  const StepCalls step = calls(5);
  ASSERT_EQ(step.calls.size(), 3U);
  EXPECT_EQ(step.calls[1].call.times, 3);
  EXPECT_EQ(step.calls[1].call.elements, Elements(2));
  EXPECT_NEAR(step.calls[0].compute.value, 1, 1e-9);
  EXPECT_NEAR(step.calls[1].compute.value, 3, 1e-9);
  EXPECT_NEAR(step.calls[2].compute.value, 3, 1e-9);
  EXPECT_NEAR(step.compute_behind.value, 2, 1e-9);
}

TEST_F(Written, RepeatedWorkWithoutCallsIsNotLost) {
  clock_.compute(0);
  clock_.begin_repeated();
  clock_.compute(0);
  clock_.end_repeated();
  clock_.compute(0);
  (void)issue(1000);
  const StepCalls step = calls(12);
  ASSERT_EQ(step.calls.size(), 1U);
  EXPECT_NEAR(step.calls[0].compute.value, 12, 1e-9);
}

TEST_F(Written, AListThatIsTooLongIsLeftOut) {
  clock_.begin_repeated();
  (void)issue(1);
  (void)issue(2);
  clock_.end_repeated();
  EXPECT_TRUE(calls(1000).complete);
  const StepCalls step = calls(200'000);
  EXPECT_FALSE(step.complete);
  EXPECT_TRUE(step.calls.empty());
}

}  // namespace
}  // namespace zplan::testing
