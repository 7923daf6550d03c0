// The search over everything, against plans that are made one by one.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "models/base/error.h"
#include "planner/plan/plan_context.h"
#include "planner/question/work.h"
#include "planner/search/families.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

Question question(const std::string& model, const std::string& gpu, std::int64_t gpus,
                  std::optional<std::int64_t> gib = {}) {
  ClusterRequest request;
  request.gpu = gpu, request.gpus = gpus;
  if (gib) request.memory = kGiB * *gib;
  return question_about(model, request);
}

TEST(MicroBatchSteps, EveryOneToSixteenThenEightToADoubling) {
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < 32; ++i) steps.push_back(micro_batch_step(i));
  const std::vector<std::int64_t> expected{1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                           18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60, 64};
  EXPECT_EQ(steps, expected);
}

TEST(BatchesOfAScope, DivideTheGlobalBatch) {
  const Scope scope{.micro_batch_sizes = {}, .accumulations = {}, .global_batch_size = 48};
  const std::vector<Batches> expected{{12, {1}}, {6, {2}}, {4, {3}}, {3, {4}}, {2, {6}}, {1, {12}}};
  EXPECT_EQ(batches(scope, {.shard = 4}), expected);
  EXPECT_TRUE(batches(scope, {.shard = 5}).empty());
}

TEST(BatchesOfAScope, KeepToWhatIsPinned) {
  Scope scope{.micro_batch_sizes = {2, 8}, .accumulations = {}, .global_batch_size = 48};
  EXPECT_EQ(batches(scope, {.shard = 4}), (std::vector<Batches>{{6, {2}}}));
  scope = {.micro_batch_sizes = {}, .accumulations = {2, 4}, .global_batch_size = {}};
  EXPECT_EQ(batches(scope, {.shard = 4}), (std::vector<Batches>{{2, {}}, {4, {}}}));
}

// Narayanan et al. 2021, section 2.2.1: stages wait (stages − 1) / micro-batches of the time that they work.
TEST(BatchesOfAScope, FillAPipelineWhereNothingSaysHowMany) {
  Scope scope{.micro_batch_sizes = {1}, .accumulations = {}, .global_batch_size = {}};
  EXPECT_EQ(batches(scope, {.shard = 4}), (std::vector<Batches>{{1, {1}}}));
  EXPECT_EQ(batches(scope, {.shard = 4, .pipeline = 8}), (std::vector<Batches>{{32, {1}}}));
  scope.accumulations = {2};
  EXPECT_EQ(batches(scope, {.shard = 4, .pipeline = 8}), (std::vector<Batches>{{2, {1}}}));
}

TEST(Explorations, TheFastestIsTheFastestOfAllThatFit) {
  const Question q = question("Qwen/Qwen3-0.6B", "RTX-4090-24GB", 2);
  Scope scope;
  scope.global_batch_size = 24;
  const Exploration found = explore(q, scope);
  ASSERT_FALSE(found.best.empty());
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  double fastest = 0;
  for (const FamilyReport& family : families(q, scope)) {
    if (family.outcome == FamilyOutcome::illegal) continue;
    for (const Batches& each : batches(scope, family.name.strategy.layout)) {
      Strategy one = family.name.strategy;
      one.micro_batch_size = each.micro_batch_sizes.front();
      one.gradient_accumulation_steps = each.accumulation;
      const Plan plan = context.outline(one);
      if (plan.fits) fastest = std::max(fastest, plan.time.tokens_per_second);
    }
  }
  // Between powers of two a search sees micro-batches to within a percent.
  EXPECT_GE(found.best.front().plan.time.tokens_per_second, fastest * 0.995);
  EXPECT_LE(found.best.front().plan.time.tokens_per_second, fastest * (1 + 1e-9));
  for (const Found& each : found.best) EXPECT_EQ(each.plan.strategy.global_batch_size(), 24);
}

TEST(Explorations, WhatIsReportedIsThePinnedPlan) {
  const Question q = question("8B", "A100-SXM-40GB", 5);
  const Exploration found = explore(q, {});
  ASSERT_FALSE(found.best.empty());
  const Plan& best = found.best.front().plan;
  const Plan pinned = make_plan(q.model, q.cluster, q.training, best.strategy, q.headroom);
  EXPECT_EQ(best.memory().required, pinned.memory().required);
  EXPECT_EQ(best.memory().peak_reserved, pinned.memory().peak_reserved);
  EXPECT_EQ(best.communication().collectives, pinned.communication().collectives);
  EXPECT_EQ(best.time.step, pinned.time.step);
  EXPECT_TRUE(pinned.fits);
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  for (const Found& each : found.best) {
    const Plan outline = context.outline(each.plan.strategy);
    EXPECT_TRUE(outline.fits) << outline.id();
    EXPECT_EQ(each.plan.time.step, outline.time.step) << outline.id();
  }
}

TEST(Explorations, EveryFamilyHasAnOutcomeAndAReason) {
  const Question q = question("8B", "A100-SXM-40GB", 5);
  const Exploration found = explore(q, {});
  std::set<FamilyOutcome> outcomes;
  std::size_t best = 0;
  for (const FamilyReport& each : found.families) {
    EXPECT_FALSE(each.reason.empty()) << strategy_id(each.name.strategy);
    outcomes.insert(each.outcome);
    best += each.outcome == FamilyOutcome::best ? 1 : 0;
  }
  EXPECT_EQ(best, found.best.size());
  for (const FamilyOutcome each :
       {FamilyOutcome::best, FamilyOutcome::slower, FamilyOutcome::too_large, FamilyOutcome::illegal})
    EXPECT_TRUE(outcomes.contains(each)) << to_name(each);
}

TEST(Explorations, AreTheSameEveryTime) {
  const Question q = question("Qwen/Qwen3-1.7B", "RTX-4090-24GB", 4);
  const Exploration one = explore(q, {}), other = explore(q, {});
  ASSERT_EQ(one.best.size(), other.best.size());
  for (std::size_t i = 0; i < one.best.size(); ++i) {
    EXPECT_EQ(one.best[i].name, other.best[i].name);
    EXPECT_EQ(one.best[i].plan.strategy, other.best[i].plan.strategy);
  }
  ASSERT_EQ(one.families.size(), other.families.size());
  for (std::size_t i = 0; i < one.families.size(); ++i)
    EXPECT_EQ(one.families[i].reason, other.families[i].reason);
  ASSERT_EQ(one.front.size(), other.front.size());
}

TEST(Explorations, NothingOnTheFrontIsBeatenInEverything) {
  const Exploration found = explore(question("8B", "A100-SXM-40GB", 5), {});
  ASSERT_GT(found.front.size(), 2U);
  for (std::size_t i = 0; i < found.front.size(); ++i) {
    const Plan& slow = found.front[i].plan;
    EXPECT_TRUE(slow.fits);
    for (std::size_t j = 0; j < i; ++j) {
      const Plan& fast = found.front[j].plan;
      EXPECT_GT(fast.time.tokens_per_second, slow.time.tokens_per_second);
      EXPECT_TRUE(slow.memory().required_low < fast.memory().required_low ||
                  slow.memory().host.total < fast.memory().host.total);
    }
  }
}

TEST(Explorations, WhereNothingFitsThereIsNoBestAndAReasonEverywhere) {
  const Exploration found = explore(question("70B", "RTX-4090-24GB", 1), {});
  EXPECT_TRUE(found.best.empty());
  EXPECT_TRUE(found.front.empty());
  for (const FamilyReport& each : found.families) EXPECT_NE(each.outcome, FamilyOutcome::best);
}

TEST(Explorations, AStoppedSearchSaysWhatItDidNotLookAt) {
  const std::atomic<bool> stop{true};
  std::atomic<std::size_t> told{0};
  const Exploration found = explore(question("8B", "A100-SXM-40GB", 5), {},
                                    {.stop = &stop, .progress = [&](std::size_t, std::size_t) { ++told; }});
  EXPECT_TRUE(found.stopped);
  EXPECT_TRUE(found.best.empty());
  EXPECT_EQ(told, found.families.size());
  for (const FamilyReport& each : found.families)
    EXPECT_TRUE(each.outcome == FamilyOutcome::not_looked_at || each.outcome == FamilyOutcome::illegal);
}

TEST(Explorations, AStoppedSearchGivesTheFastestOfWhatItLookedAt) {
  const Question q = question("8B", "A100-SXM-40GB", 5);
  std::atomic<bool> stop{false};
  const Exploration all = explore(q, {});
  const Exploration found = explore(q, {}, {.stop = &stop, .progress = [&](std::size_t done, std::size_t of) {
                                              if (done == of / 2) stop = true;
                                            }});
  EXPECT_TRUE(found.stopped);
  const auto is_left_out = [](const FamilyReport& each) {
    return each.outcome == FamilyOutcome::not_looked_at;
  };
  EXPECT_GT(std::count_if(found.families.begin(), found.families.end(), is_left_out), 0);
  ASSERT_FALSE(found.best.empty());
  const Plan& best = found.best.front().plan;
  EXPECT_TRUE(best.fits);
  EXPECT_LE(best.time.tokens_per_second, all.best.front().plan.time.tokens_per_second);
  EXPECT_EQ(best.memory().required,
            make_plan(q.model, q.cluster, q.training, best.strategy, q.headroom).memory().required);
}

TEST(Explorations, StoppedWorkGivesNoResult) {
  const std::atomic<bool> stop{true};
  const Work work(&stop);
  EXPECT_THROW(static_cast<void>(explore(question("8B", "A100-SXM-40GB", 5), {})), Stopped);
}

TEST(Explorations, NothingLegalIsBadInput) {
  Question q = question("8B", "A100-SXM-40GB", 5);
  q.space.tensor_parallel = {3};
  EXPECT_THROW(static_cast<void>(explore(q, {})), InputError);
}

}  // namespace
}  // namespace zplan::testing
