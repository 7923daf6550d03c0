// The inverse questions, against plans of every value around the answer.

#include "planner/search/inverse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "models/catalogue/catalogue.h"
#include "planner/plan/legality.h"
#include "planner/search/scale.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

Model small_llama(std::int64_t positions = 0) {
  const Json config = {
      {"model_type", "llama"},     {"hidden_size", 2048},
      {"intermediate_size", 5632}, {"num_hidden_layers", 22},
      {"num_attention_heads", 32}, {"num_key_value_heads", 4},
      {"vocab_size", 32000},       {"max_position_embeddings", positions > 0 ? positions : 1'000'000}};
  return read_config(JsonReader(config, "test model"));
}

OpenQuestion open_question(std::int64_t gpus, Bytes memory, std::int64_t positions = 0) {
  ClusterRequest request{.gpu = "A100-SXM-80GB", .memory = memory, .gpus = gpus};
  Question q{.model = small_llama(positions),
             .cluster = assemble_cluster(request, built_in_profiles()),
             .training = {},
             .space = {},
             .headroom = {},
             .unit = {}};
  return {.question = q, .cluster = request, .hardware = &built_in_profiles(), .model_of_size = infer_model};
}

/// By a plan that is made for this value and nothing else.
bool fits(const OpenQuestion& open, Solve solve, const Plan& like, std::int64_t value) {
  const Question q = pinned_to(question_at(open, solve, value), family_of(like.strategy));
  const Candidates found = candidates(q);
  return !found.legal.empty() &&
         make_plan(q.model, q.cluster, q.training, found.legal.front(), q.headroom).fits;
}

class EveryInverse : public ::testing::TestWithParam<Solve> {};

TEST_P(EveryInverse, TheValueFitsAndTheNextDoesNot) {
  OpenQuestion open = open_question(4, kGiB * 14);
  const Inverse found = solve(open, GetParam());
  ASSERT_TRUE(found.fits());
  for (const Solution& each : found.solutions) {
    SCOPED_TRACE(each.plan.id());
    if (each.value) {
      EXPECT_TRUE(fits(open, GetParam(), each.plan, *each.value)) << *each.value;
    }
    if (each.next) {
      EXPECT_FALSE(fits(open, GetParam(), each.plan, *each.next)) << *each.next;
    }
    EXPECT_FALSE(each.reason.empty());
    EXPECT_EQ(each.plan.fits, each.value.has_value());
  }
}

TEST_P(EveryInverse, TheBestStandsFirstAndComesAgain) {
  const OpenQuestion open = open_question(4, kGiB * 14);
  const Inverse once = solve(open, GetParam()), again = solve(open, GetParam());
  ASSERT_EQ(once.solutions.size(), again.solutions.size());
  for (std::size_t i = 0; i < once.solutions.size(); ++i) {
    const Solution& each = once.solutions[i];
    EXPECT_EQ(each.value, again.solutions[i].value);
    EXPECT_EQ(each.plan.strategy, again.solutions[i].plan.strategy);
    if (i == 0) continue;
    const Solution& before = once.solutions[i - 1];
    EXPECT_TRUE(before.value || !each.value);
    if (!before.value || !each.value) continue;
    const std::int64_t sign = asks_for_most(GetParam()) ? 1 : -1;
    EXPECT_GE(sign * *before.value, sign * *each.value);
  }
}

INSTANTIATE_TEST_SUITE_P(Planner, EveryInverse,
                         ::testing::Values(Solve::micro_batch, Solve::sequence, Solve::gpus, Solve::model,
                                           Solve::memory, Solve::host_memory),
                         [](const auto& each) {
                           std::string name(to_name(each.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// One strategy, every value tried.
OpenQuestion pinned_open(int stage, std::int64_t gpus, Bytes memory) {
  OpenQuestion open = open_question(gpus, memory);
  open.question = pinned_to(open.question, {.zero_stage = stage});
  return open;
}

TEST(Inverse, TheLargestMicroBatchIsThatOfTryingAll) {
  const OpenQuestion open = pinned_open(3, 4, kGiB * 16);
  const Inverse found = solve(open, Solve::micro_batch);
  ASSERT_TRUE(found.fits());
  std::int64_t most = 0;
  for (std::int64_t b = 1; b <= 2 * *found.best()->value; ++b)
    if (fits(open, Solve::micro_batch, found.best()->plan, b)) most = b;
  EXPECT_EQ(*found.best()->value, most);
}

TEST(Inverse, WithAGlobalBatchOnlyDivisorsAreTried) {
  OpenQuestion open = pinned_open(3, 4, kGiB * 16);
  open.question.space.global_batch_size = 24;
  const Inverse found = solve(open, Solve::micro_batch);
  ASSERT_TRUE(found.fits());
  EXPECT_EQ(6 % *found.best()->value, 0);
  EXPECT_EQ(found.best()->plan.strategy.global_batch_size(), 24);
}

TEST(Inverse, TheFewestGpusAreThoseOfTryingAll) {
  for (const int stage : {1, 2, 3}) {
    const OpenQuestion open = pinned_open(stage, 4, kGiB * 10);
    const Inverse found = solve(open, Solve::gpus);
    std::optional<std::int64_t> fewest;
    for (std::int64_t n = 1; n <= 8 && !fewest; ++n)
      if (fits(open, Solve::gpus, found.solutions.front().plan, n)) fewest = n;
    for (std::int64_t n = 16; n <= 64 && !fewest; n += 8)
      if (fits(open, Solve::gpus, found.solutions.front().plan, n)) fewest = n;
    EXPECT_EQ(found.solutions.front().value, fewest) << stage;
  }
}

TEST(Inverse, BeyondANodeGpusComeInWholeNodes) {
  OpenQuestion open = pinned_open(1, 8, kGiB * 16);
  open.question.model = infer_model(Elements(2'500'000'000));
  const Inverse found = solve(open, Solve::gpus);
  ASSERT_TRUE(found.fits()) << found.solutions.front().reason;
  EXPECT_GT(*found.best()->value, 8);
  EXPECT_EQ(*found.best()->value % 8, 0);
  EXPECT_EQ(found.best()->next, *found.best()->value - 8);
  EXPECT_LE(*found.best()->value, kMostSolvedGpus);
}

TEST(Inverse, TheSmallestCardIsThatOfTryingAll) {
  const OpenQuestion open = pinned_open(2, 4, kGiB * 80);
  const Inverse found = solve(open, Solve::memory);
  ASSERT_TRUE(found.fits());
  std::int64_t least = 40;
  while (fits(open, Solve::memory, found.best()->plan, least - 1)) --least;
  EXPECT_EQ(*found.best()->value, least);
}

TEST(Inverse, EveryNamedCardRunsIt) {
  const OpenQuestion open = pinned_open(3, 4, kGiB * 80);
  const std::vector<CardFit> cards = cards_that_fit(open, kGiB * 10);
  ASSERT_GT(cards.size(), 5U);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    ClusterRequest request{.gpu = cards[i].name, .gpus = 4};
    const Cluster cluster = assemble_cluster(request, built_in_profiles());
    Training training = open.question.training;
    if (!runs_flash(training, cluster.gpu)) training.attention = Attention::sdpa;
    EXPECT_TRUE(make_plan(open.question.model, cluster, training, cards[i].plan->strategy).fits)
        << cards[i].name;
    EXPECT_TRUE(cluster.gpu.bf16.has_value()) << cards[i].name;
    if (i > 0) {
      EXPECT_LE(cards[i - 1].memory, cards[i].memory);
    }
  }
}

TEST(Inverse, CardsThatAreNotPlannedAreNamedAllTheSame) {
  const OpenQuestion open = pinned_open(3, 4, kGiB * 80);
  const std::vector<CardFit> all = cards_that_fit(open, kGiB * 30), few = cards_that_fit(open, kGiB * 30, 2);
  ASSERT_GT(all.size(), 5U);
  ASSERT_EQ(few.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(few[i].name, all[i].name);
    ASSERT_TRUE(all[i].plan) << all[i].name;
    EXPECT_EQ(few[i].plan.has_value(), i < 2) << few[i].name;
    if (few[i].plan) {
      EXPECT_EQ(few[i].plan->id(), all[i].plan->id());
      EXPECT_EQ(few[i].plan->memory().required, all[i].plan->memory().required);
    }
  }
}

TEST(Inverse, PositionsBoundASequenceBeforeMemoryDoes) {
  const OpenQuestion open = open_question(4, kGiB * 80, 4096);
  const Inverse found = solve(open, Solve::sequence);
  ASSERT_TRUE(found.fits());
  EXPECT_EQ(*found.best()->value, 4096);
  EXPECT_EQ(found.best()->limit, Limit::positions);
  EXPECT_THAT(found.best()->reason, ::testing::HasSubstr("4096"));
}

TEST(Inverse, ARoundedSequenceFitsToo) {
  const OpenQuestion open = pinned_open(3, 4, kGiB * 16);
  const Inverse found = solve(open, Solve::sequence);
  ASSERT_TRUE(found.fits() && found.best()->rounded);
  EXPECT_EQ(*found.best()->rounded % 128, 0);
  EXPECT_GT(*found.best()->rounded + 256, *found.best()->value);
  EXPECT_TRUE(fits(open, Solve::sequence, found.best()->plan, *found.best()->rounded));
}

TEST(Inverse, MoreOfACardNeverMeansLess) {
  std::map<Solve, std::int64_t> last;
  for (const std::int64_t memory : {12, 16, 24, 40})
    for (const Solve each : {Solve::micro_batch, Solve::sequence, Solve::model}) {
      const Inverse found = solve(pinned_open(3, 4, kGiB * memory), each);
      const std::int64_t value = found.fits() ? *found.best()->value : 0;
      EXPECT_GE(value, last[each]) << to_name(each) << " on " << memory;
      last[each] = value;
    }
}

TEST(Inverse, EveryDegreeOfAListIsAnsweredByItself) {
  const Json config = {{"model_type", "qwen3_moe"},   {"hidden_size", 256},
                       {"intermediate_size", 512},    {"num_hidden_layers", 4},
                       {"num_attention_heads", 8},    {"num_key_value_heads", 4},
                       {"vocab_size", 1024},          {"head_dim", 32},
                       {"num_experts", 16},           {"num_experts_per_tok", 4},
                       {"moe_intermediate_size", 96}, {"max_position_embeddings", 1'000'000}};
  OpenQuestion open = open_question(4, kGiB * 14);
  open.question.model = read_config(JsonReader(config, "test model"));
  open.question.space.expert_parallel = {1, 4};
  open.question.space.sequence_parallel = {1, 2};
  std::set<Family> answered;
  const Inverse found = solve(open, Solve::sequence);
  for (const Solution& each : found.solutions) answered.insert(family_of(each.plan.strategy));
  EXPECT_EQ(answered.size(), found.solutions.size());
  for (const std::int64_t degree : {1, 4})
    EXPECT_TRUE(std::any_of(answered.begin(), answered.end(), [degree](const Family& each) {
      return each.of_model.expert == degree;
    })) << degree;
}

TEST(Inverse, WhatFitsNowhereSaysHowFar) {
  OpenQuestion open = pinned_open(0, 1, kGiB * 6);
  const Inverse found = solve(open, Solve::micro_batch);
  ASSERT_FALSE(found.fits());
  EXPECT_EQ(found.solutions.front().next, 1);
  EXPECT_EQ(found.solutions.front().limit, Limit::device_memory);
  EXPECT_THAT(found.solutions.front().plan.why, ::testing::Contains(::testing::HasSubstr("short by")));
}

TEST(Inverse, WhereNothingIsOffloadedNoHostMemoryIsAsked) {
  EXPECT_THROW(static_cast<void>(solve(pinned_open(2, 4, kGiB * 40), Solve::host_memory)), InputError);
}

TEST(Inverse, LargestModelsAreInOrderAndFit) {
  const OpenQuestion open = open_question(2, kGiB * 24);
  std::vector<Model> models;
  for (const std::int64_t millions : {300, 8000, 1000, 3000, 500})
    models.push_back(infer_model(Elements(millions * 1'000'000)));
  const std::vector<ModelFit> fit = largest_models(open, models, 3);
  ASSERT_EQ(fit.size(), 3U);
  for (std::size_t i = 1; i < fit.size(); ++i) EXPECT_GT(fit[i - 1].size, fit[i].size);
  for (const ModelFit& each : fit) EXPECT_TRUE(each.plan.fits);
}

// Their head gives a score, whichever model is tried.
TEST(Inverse, ModelsOfRewardTrainingAreRewardModels) {
  OpenQuestion open = open_question(1, kGiB * 24);
  open.question.training.objective = Objective::reward;
  const Inverse found = solve(open, Solve::model);
  ASSERT_TRUE(found.fits());
  const std::vector<ModelFit> fit = largest_models(open, {infer_model(Elements(300'000'000))}, 1);
  ASSERT_EQ(fit.size(), 1U);
  EXPECT_TRUE(fit.front().plan.fits);
}

}  // namespace
}  // namespace zplan::testing
