// Bounds of layouts, against the figures of plans; the search over layouts, against one that simulates them
// all.

#include "planner/search/layout_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/plan/plan_context.h"
#include "planner/search/candidates.h"
#include "planner/search/families.h"
#include "planner/search/family.h"
#include "planner/search/parallel.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

Question question(const std::string& model, Framework framework, std::int64_t gpus) {
  ClusterRequest request;
  request.gpu = "H100-SXM-80GB", request.gpus = gpus, request.nodes = gpus / 8;
  Question q = question_about(model, request);
  q.training.sequence_length = 4096;
  q.training = with_framework(q.training, framework);
  return q;
}

Scope scope_of(Framework framework, std::int64_t global_batch) {
  Scope scope;
  scope.frameworks = {framework};
  scope.global_batch_size = global_batch;
  return scope;
}

/// Returns every legal plan of a scope.
std::vector<Strategy> all_plans(const Question& q, const Scope& scope) {
  std::vector<Strategy> all;
  for (const FamilyReport& family : families(q, scope)) {
    if (family.outcome == FamilyOutcome::illegal) continue;
    for (const Batches& each : batches(q, scope, family.name.strategy))
      for (const std::int64_t size : each.micro_batch_sizes) {
        Strategy strategy = family.name.strategy;
        strategy.micro_batch_size = size, strategy.gradient_accumulation_steps = each.accumulation;
        all.push_back(strategy);
      }
  }
  return all;
}

std::string name_of(const Question& q, const Strategy& strategy) {
  return fmt::format("{} {}x{}", plan_id(q.training.framework, strategy), strategy.micro_batch_size,
                     strategy.gradient_accumulation_steps);
}

struct Case {
  std::string model;
  Framework framework{};
  std::int64_t gpus{16}, global_batch{64};
};

class LayoutSearches : public ::testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] static Question asked() {
    return question(GetParam().model, GetParam().framework, GetParam().gpus);
  }
  [[nodiscard]] static Scope scope() { return scope_of(GetParam().framework, GetParam().global_batch); }
  /// Returns about `count` plans, from all over the scope.
  [[nodiscard]] static std::vector<Strategy> some_plans(const Question& q, std::size_t count) {
    const std::vector<Strategy> all = all_plans(q, scope());
    std::vector<Strategy> some;
    for (std::size_t i = 0; i < all.size(); i += std::max<std::size_t>(1, all.size() / count))
      some.push_back(all[i]);
    return some;
  }
};

TEST_P(LayoutSearches, BoundsAreBelowEveryPlanAndNearMost) {
  const Question q = asked();
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  LayoutBounds bounds(context);
  std::size_t near = 0, judged = 0;
  for (const Strategy& each : some_plans(q, 80)) {
    const LayoutBound bound = bounds.of(each);
    const Plan plan = *context.sketch(each, Bytes(std::int64_t{1} << 50));
    EXPECT_LE(bound.required, plan.memory().required_low) << name_of(q, each);
    EXPECT_LE(bound.step, plan.time.step) << name_of(q, each);
    ++judged;
    near += bound.step > plan.time.step * 0.7 ? 1U : 0U;
  }
  EXPECT_GT(judged, 50U);
  EXPECT_GT(near, judged / 2);
}

TEST_P(LayoutSearches, AskTheAllocatorOfTheNeediestStageOfEachKind) {
  const Question q = asked();
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  std::size_t judged = 0;
  for (const Strategy& strategy : some_plans(q, 60)) {
    if (strategy.layout.pipeline < 4) continue;
    const auto ranks = context.may_fit(strategy, available(q.cluster, q.headroom));
    if (!ranks) continue;
    const bool every_stage =
        std::ranges::all_of(*ranks, [&](const SimulatedRank& each) { return context.fits_device({each}); });
    EXPECT_EQ(context.fits_device(*ranks), every_stage) << name_of(q, strategy);
    ++judged;
  }
  EXPECT_GT(judged, 0U);
}

TEST_P(LayoutSearches, EndAsTheyWouldBehindAWholeFirstStep) {
  const Question q = asked();
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  for (const Strategy& strategy : some_plans(q, 40)) {
    const std::vector<RankRun> runs = context.runs(strategy);
    for (const std::size_t stage : {std::size_t{0}, runs.size() / 2, runs.size() - 1}) {
      RunInputs inputs = runs[stage].inputs();
      const RunResult told = simulate_live(inputs);
      std::vector<BlockRequest> requests;
      inputs.requests = &requests;  // asks for every step as it is
      const RunResult whole = simulate_live(inputs);
      EXPECT_EQ(told.peak_allocated, whole.peak_allocated) << name_of(q, strategy) << " stage " << stage;
      EXPECT_EQ(told.phases, whole.phases) << name_of(q, strategy) << " stage " << stage;
      EXPECT_EQ(told.left, whole.left) << name_of(q, strategy) << " stage " << stage;
      EXPECT_TRUE(told.calls == whole.calls) << name_of(q, strategy) << " stage " << stage;
      EXPECT_TRUE(told.program == whole.program) << name_of(q, strategy) << " stage " << stage;
    }
  }
}

TEST_P(LayoutSearches, FindWhatSimulatingEveryLayoutFinds) {
  const Question q = asked();
  const Scope scope = LayoutSearches::scope();
  const Exploration found = explore(q, scope);
  ASSERT_FALSE(found.best.empty());
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const std::vector<Strategy> all = all_plans(q, scope);
  std::vector<Estimate> fitting;
  for (const std::optional<Estimate>& each : mapped_in_parallel(all, [&](const Strategy& strategy) {
         return estimate_of(context, strategy, available(q.cluster, q.headroom));
       }))
    if (each) fitting.push_back(*each);
  std::ranges::sort(fitting, std::greater<>(), &Estimate::tokens_per_second);
  ASSERT_FALSE(fitting.empty());
  const Found& best = found.best.front();
  EXPECT_NEAR(best.plan.time.tokens_per_second / fitting.front().tokens_per_second, 1, 1e-6)
      << name_of(q, best.plan.strategy);
  // Nothing down to half of that speed needs a tenth less memory than what the front has of that speed.
  for (const Estimate& each : fitting) {
    if (each.tokens_per_second < fitting.front().tokens_per_second * LayoutScreen::kSlowest * 1.02) break;
    const bool covered = std::ranges::any_of(found.front, [&](const Found& of) {
      return of.plan.time.tokens_per_second >= each.tokens_per_second * (1 - kFrontStep) &&
             static_cast<double>(of.plan.memory().required_low.value) *
                     (1 - 1.5 * LayoutScreen::kLeastSaved) <=
                 static_cast<double>(each.required_low.value);
    });
    EXPECT_TRUE(covered) << each.tokens_per_second << " tokens/s in " << each.required_low.value << " bytes";
  }
  ASSERT_TRUE(found.layouts);
  EXPECT_EQ(found.layouts->seen, all.size());
  EXPECT_LT(found.layouts->simulated, all.size() / 2);
}

INSTANTIATE_TEST_SUITE_P(Planner, LayoutSearches,
                         ::testing::Values(Case{"Qwen/Qwen3-8B", Framework::megatron},
                                           Case{"meta-llama/Llama-3.1-8B", Framework::torchtitan},
                                           Case{"Qwen/Qwen3-30B-A3B", Framework::megatron},
                                           Case{"meta-llama/Llama-3.1-70B", Framework::megatron, 64, 32}));

TEST(LayoutScreens, SimulateNoPlanThatItsBoundRulesOut) {
  const auto candidate = [](std::size_t family, std::int64_t gib, double speed) {
    return LayoutCandidate{.family = family,
                           .bound = {.required = kGiB * gib, .step = Seconds(1)},
                           .most_tokens_per_second = speed};
  };
  std::vector<std::size_t> simulated;
  std::mutex mutex;
  const LayoutScreen screen{.estimate = [&](const LayoutCandidate& each, Bytes) -> std::optional<Estimate> {
                              const std::lock_guard lock(mutex);
                              simulated.push_back(each.family);
                              return Estimate{.required_low = each.bound.required,
                                              .host = {},
                                              .step = Seconds(1),
                                              .tokens_per_second = each.most_tokens_per_second,
                                              .sent = {}};
                            },
                            .device = kGiB * 80,
                            .host = kGiB * 1000};
  std::vector<LayoutCandidate> all{candidate(0, 90, 1000), candidate(1, 40, 900)};
  // One round is simulated side by side; what comes behind it is left out where it needs no less memory.
  for (std::size_t i = 2; i < 9; ++i) all.push_back(candidate(i, 60, 899));
  all.push_back(candidate(9, 39, 800)), all.push_back(candidate(10, 20, 800)),
      all.push_back(candidate(11, 10, 300));
  const ScreenedLayouts found = screen.run(all);
  std::ranges::sort(simulated);
  EXPECT_EQ(simulated, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7, 8, 10}));
  EXPECT_EQ(found.counts.seen, 12U);
  EXPECT_EQ(found.counts.too_large, 1U);
  EXPECT_EQ(found.counts.slower, 2U);
  EXPECT_EQ(found.counts.simulated, 9U);
}

}  // namespace
}  // namespace zplan::testing
