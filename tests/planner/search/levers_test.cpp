// Levers, against searches under every set of them.

#include "planner/search/levers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/search/search.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

Question levers_question(const std::string& model, const std::string& gpu, std::int64_t gpus,
                         std::int64_t sequence = 2048) {
  ClusterRequest request;
  request.gpu = gpu, request.gpus = gpus;
  Question q = question_about(model, request);
  q.training.sequence_length = sequence;
  if (gpu.starts_with("V100")) q.training.attention = Attention::sdpa;
  return q;
}

OpenLevers all_open(std::int64_t micro_batch = 1) {
  OpenLevers open;
  open.scope.frameworks = {Framework::deepspeed, Framework::fsdp, Framework::torch};
  open.scope.micro_batch_sizes = {micro_batch};
  for (const Lever& each : levers()) open.levers.push_back(&each);
  return open;
}

bool pulls(const Advised& advised, std::string_view option) {
  return std::ranges::any_of(advised.gains,
                             [&](const LeverGain& each) { return each.lever->option == option; });
}

/// Returns the most tokens per second under any set of the levers that do not change the result.
double fastest_of_all_sets(const Question& q, const OpenLevers& open) {
  std::vector<const Lever*> same;
  for (const Lever* each : open.levers)
    if (each->kind == LeverKind::same_result) same.push_back(each);
  double most = 0;
  for (std::size_t set = 0; set < (std::size_t{1} << same.size()); ++set) {
    Question pulled = q;
    Scope scope = open.scope;
    bool applies = true;
    for (std::size_t i = 0; i < same.size(); ++i)
      if ((set >> i & 1) != 0) applies = applies && same[i]->pull(pulled, scope);
    if (!applies) continue;
    const Exploration found = explore(pulled, scope);
    if (!found.best.empty()) most = std::max(most, found.best.front().plan.time.tokens_per_second);
  }
  return most;
}

struct AskedCase {
  std::string model, gpu;
  std::int64_t gpus{}, sequence{};
  Method method{Method::full};
};

void PrintTo(const AskedCase& each, std::ostream* out) {
  *out << each.model << " on " << each.gpus << " " << each.gpu << " at " << each.sequence;
}

class AdviceOf : public ::testing::TestWithParam<AskedCase> {};

TEST_P(AdviceOf, IsWithinFivePercentOfTheBestUnderAnySetOfLevers) {
  const AskedCase& asked = GetParam();
  Question q = levers_question(asked.model, asked.gpu, asked.gpus, asked.sequence);
  q.training.method = asked.method;
  const OpenLevers open = all_open();
  const Advice advice = advise(q, open);
  const double most = fastest_of_all_sets(q, open);
  ASSERT_EQ(advice.best.has_value(), most > 0);
  if (!advice.best) return;
  EXPECT_TRUE(advice.best->plan().fits);
  EXPECT_GE(advice.best->plan().time.tokens_per_second, most * 0.95);
}

INSTANTIATE_TEST_SUITE_P(Questions, AdviceOf,
                         ::testing::Values(AskedCase{"Qwen/Qwen3-0.6B", "RTX-4090-24GB", 1, 4096},
                                           AskedCase{"Qwen/Qwen3-4B", "RTX-4090-24GB", 4, 2048},
                                           AskedCase{"8B", "A100-SXM-40GB", 4, 4096, Method::lora},
                                           AskedCase{"8B", "RTX-3090-24GB", 2, 2048, Method::qlora},
                                           AskedCase{"gpt2", "V100-SXM2-16GB", 2, 1024},
                                           AskedCase{"Qwen/Qwen3-14B", "A100-SXM-80GB", 4, 8192}));

TEST(Levers, AFusedLossSparesOffload) {
  const Question q = levers_question("Qwen/Qwen3-14B", "A100-SXM-80GB", 4, 8192);
  const Answer asked = answer(q);
  ASSERT_TRUE(asked.fits() && offloads(asked.plans.front().strategy));
  const Advice advice = advise(q, all_open());
  ASSERT_TRUE(advice.best);
  EXPECT_TRUE(pulls(*advice.best, "--fused-loss --kernels liger"));
  EXPECT_FALSE(offloads(advice.best->plan().strategy));
  EXPECT_GT(advice.best->plan().time.tokens_per_second, asked.plans.front().time.tokens_per_second * 2);
  EXPECT_TRUE(improves(*advice.best, asked.recommended()));
}

TEST(Levers, WithoutOneTheSameStrategyIsWorse) {
  const Question q = levers_question("Qwen/Qwen3-14B", "A100-SXM-80GB", 4, 8192);
  const Advice advice = advise(q, all_open());
  ASSERT_TRUE(advice.best && !advice.best->gains.empty());
  for (const LeverGain& each : advice.best->gains) {
    ASSERT_TRUE(each.without);
    EXPECT_TRUE(!each.without->fits || each.without->tokens_per_second <
                                           advice.best->plan().time.tokens_per_second * (1 - kWorthPulling));
  }
}

TEST(Levers, ThoseThatGainNothingAreNotPulled) {
  Question q = levers_question("Qwen/Qwen3-0.6B", "H100-SXM-80GB", 8, 512);
  const Advice advice = advise(q, all_open());
  ASSERT_TRUE(advice.best);
  EXPECT_FALSE(pulls(*advice.best, "--expandable-segments"));
}

TEST(Levers, ThatAreSetAlreadyDoNotApply) {
  for (const Lever& each : levers()) {
    Question q = levers_question("8B", "A100-SXM-80GB", 4);
    q.training.method = each.kind == LeverKind::adapters ? Method::full : q.training.method;
    OpenLevers open = all_open();
    if (!each.pull(q, open.scope)) continue;
    EXPECT_FALSE(each.pull(q, open.scope)) << each.option;
  }
}

TEST(Levers, LigerIsForModelsThatItPatches) {
  Question known = levers_question("Qwen/Qwen3-0.6B", "A100-SXM-80GB", 1);
  Question other = levers_question("gpt2", "A100-SXM-80GB", 1, 1024);
  Scope scope;
  const auto named = [](std::string_view option) {
    return *std::ranges::find(levers(), option, &Lever::option);
  };
  EXPECT_TRUE(named("--fused-loss --kernels liger").pull(known, scope));
  EXPECT_FALSE(named("--fused-loss --kernels liger").pull(other, scope));
  EXPECT_TRUE(named("--fused-loss").pull(other, scope));
}

TEST(Levers, AWholeModelThatDoesNotFitIsOfferedAdapters) {
  const Advice advice = advise(levers_question("Qwen/Qwen3-32B", "RTX-4090-24GB", 1), all_open());
  EXPECT_FALSE(advice.best);
  ASSERT_FALSE(advice.offers.empty());
  const auto adapts = [](const LeverGain& each) { return each.lever->kind == LeverKind::adapters; };
  EXPECT_TRUE(std::ranges::any_of(advice.offers.back().gains, adapts));
}

TEST(Levers, OfARiskyPlanASaferOneIsNamed) {
  for (const std::int64_t sequence : {4096, 6144, 8192, 10240}) {
    const Question q = levers_question("Qwen/Qwen3-14B", "A100-SXM-80GB", 4, sequence);
    const Advice advice = advise(q, all_open());
    ASSERT_TRUE(advice.best);
    const auto safe = [&](const Advised& each) {
      return each.plan().memory().required_high <= q.cluster.usable_memory;
    };
    EXPECT_TRUE(safe(*advice.best) || (advice.safer && safe(*advice.safer))) << sequence;
  }
}

}  // namespace
}  // namespace zplan::testing
