// Out-of-memory errors played and mended: by messages that the played run itself would print.

#include "planner/search/oom.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/catalogue/catalogue.h"
#include "planner/search/scale.h"
#include "planner/simulation/caching_allocator.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

struct OomCase {
  OpenQuestion open;
  Strategy ran;
};

/// The 8B model at ZeRO-2 on five GPUs of 44 GiB, four samples of 4096 tokens at a time.
OomCase scenario() {
  ClusterRequest request{.memory = kGiB * 44, .gpus = 5};
  Question q{.model = infer_model(Elements(8'000'000'000)),
             .cluster = assemble_cluster(request, built_in_profiles()),
             .training = {},
             .space = {},
             .headroom = {},
             .unit = {}};
  q.training.sequence_length = 4096;
  q.space.micro_batch_size = 4;
  q = pinned_to(q, {.zero_stage = 2});
  const Strategy ran = candidates(q).legal.front();
  return {{.question = q, .cluster = request, .hardware = &built_in_profiles()}, ran};
}

OomReading message(const std::string& asked, const std::string& capacity,
                   const std::string& free = "1.00 GiB") {
  const std::string text = fmt::format(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 2 has a total capacity of {} of "
      "which {} is "
      "free. ",
      asked, capacity, free);
  return read_oom(read_oom_messages(text).at(0));
}

TEST(Oom, ThePlayedRunEndsWhereItsOwnMessageMatches) {
  const OomCase given = scenario();
  const OomReplay first = replay_oom(given.open.question, given.ran, message("2.00 GiB", "44.35 GiB"));
  ASSERT_FALSE(first.completes);
  ASSERT_TRUE(first.refused.has_value());
  EXPECT_LT(first.refused->held, first.pool);
  EXPECT_GT(first.refused->held + asked_of_device(first.refused->size), first.pool);
  const std::string asked = torch_size(asked_of_device(first.refused->size));
  const OomReplay again = replay_oom(given.open.question, given.ran, message(asked, "44.35 GiB"));
  const auto same = [&](const OomMatch& each) {
    return each.term == first.refused->term && each.phase == first.refused->phase;
  };
  EXPECT_TRUE(std::any_of(again.matches.begin(), again.matches.end(), same)) << asked;
}

/// b·s·V·4 bytes: the logits in fp32, on which such runs end.
TEST(Oom, TheLogitsAreFoundBySize) {
  const OomCase given = scenario();
  const Bytes logits = Elements(4 * 4096 * given.open.question.model.shape.vocabulary_size) * Bytes(4);
  const OomReplay found =
      replay_oom(given.open.question, given.ran, message(torch_size(logits), "44.35 GiB"));
  ASSERT_FALSE(found.matches.empty());
  EXPECT_EQ(info(found.matches.front().term).part, MemoryPart::loss);
}

TEST(Oom, WhatNoBlockHasMatchesNothing) {
  const OomCase given = scenario();
  EXPECT_TRUE(replay_oom(given.open.question, given.ran, message("3.33 GiB", "44.35 GiB")).matches.empty());
}

TEST(Oom, OnACardWithRoomThePlanCompletes) {
  const OomCase given = scenario();
  const OomReplay roomy = replay_oom(given.open.question, given.ran, message("2.00 GiB", "139.80 GiB"));
  EXPECT_TRUE(roomy.completes);
  EXPECT_FALSE(roomy.refused.has_value());
}

TEST(Oom, OtherProcessesAndLimitsNarrowThePool) {
  const OomCase given = scenario();
  const auto pool = [&](const std::string& rest) {
    const std::string text =
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 44.00 GiB of "
        "which 1.00 GiB is free. " +
        rest;
    return replay_oom(given.open.question, given.ran, read_oom(read_oom_messages(text).at(0))).pool;
  };
  const Bytes whole = pool("");
  EXPECT_EQ(pool("Process 77 has 10.00 GiB memory in use. "), whole - kGiB * 10);
  EXPECT_EQ(pool("20.00 GiB allowed; "), kGiB * 20);
  EXPECT_EQ(pool("Including non-PyTorch memory, this process has 43.00 GiB memory in use. Of the allocated "
                 "memory 40.00 "
                 "GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated."),
            kGiB * 42);
}

TEST(Oom, WhatOthersHoldIsTakenOffTheCard) {
  const auto taken = [](const std::string& rest) {
    const std::string text =
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 44.00 GiB of "
        "which 1.00 GiB is free. " +
        rest;
    return taken_by_others(read_oom(read_oom_messages(text).at(0)), kGiB * 44);
  };
  EXPECT_EQ(taken(""), Bytes{});
  EXPECT_EQ(taken("Process 7 has 10.00 GiB memory in use. "), kGiB * 10);
  EXPECT_EQ(taken("30.00 GiB allowed; "), kGiB * 14);
  EXPECT_EQ(taken("Process 7 has 99.00 GiB memory in use. "), kGiB * 44);
}

class Remedies : public ::testing::Test {
 protected:
  static const OomRemedies& remedies() {
    static const OomCase given = scenario();
    static const OomRemedies made = oom_remedies(given.open, given.ran);
    return made;
  }
};

TEST_F(Remedies, WhatFitsStandsFirstTheFastestOfItsKindBefore) {
  ASSERT_TRUE(remedies().any_fits());
  EXPECT_FALSE(remedies().plan.fits);
  const auto& changes = remedies().changes;
  for (std::size_t i = 1; i < changes.size(); ++i) {
    const OomChange &a = changes[i - 1], &b = changes[i];
    EXPECT_TRUE(a.fits() || !b.fits()) << b.what;
    if (a.fits() && b.fits() && a.kind == b.kind) {
      EXPECT_GE(a.speed, b.speed) << b.what;
    }
    if (a.plan && b.plan && !a.fits() && !b.fits()) {
      EXPECT_GE(a.frees, b.frees) << b.what;
    }
  }
}

TEST_F(Remedies, FiguresAreDifferencesOfTwoPlans) {
  for (const OomChange& each : remedies().changes) {
    EXPECT_EQ(each.plan.has_value(), each.illegal.empty()) << each.what;
    if (!each.plan) continue;
    EXPECT_EQ(each.frees, remedies().plan.memory().required - each.plan->memory().required);
    EXPECT_DOUBLE_EQ(each.speed, each.plan->time.tokens_per_second / remedies().plan.time.tokens_per_second);
  }
}

TEST_F(Remedies, ASmallerMicroBatchKeepsTheSamplesOfAStep) {
  for (const OomChange& each : remedies().changes) {
    if (!each.what.starts_with("micro-batch") || !each.plan) continue;
    EXPECT_EQ(each.plan->strategy.global_batch_size(), remedies().plan.strategy.global_batch_size())
        << each.what;
  }
}

TEST_F(Remedies, WhatIsNotPossibleSaysWhy) {
  const auto& changes = remedies().changes;
  const auto offload = std::find_if(changes.begin(), changes.end(),
                                    [](const OomChange& each) { return each.options == "--offload all"; });
  ASSERT_NE(offload, changes.end());
  EXPECT_FALSE(offload->plan);
  EXPECT_THAT(offload->illegal.front(), ::testing::HasSubstr("ZeRO-3"));
}

TEST_F(Remedies, PairsOfWhichEachAloneIsNotEnough) {
  const auto& changes = remedies().changes;
  const auto pair = std::find_if(changes.begin(), changes.end(), [](const OomChange& each) {
    return each.what.find(" + ") != std::string::npos;
  });
  ASSERT_NE(pair, changes.end());
  EXPECT_TRUE(pair->fits());
}

}  // namespace
}  // namespace zplan::testing
