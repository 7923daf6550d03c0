#include "planner/memory/timeline.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

TEST(Timeline, PeakIsTheWorstMomentAndKnowsWhatItHeld) {
  Timeline timeline;
  timeline.enter(Phase::forward, "layer forward", 0);
  timeline.allocate(Term::saved_activations, Bytes(100));
  timeline.enter(Phase::loss, "loss backward");
  timeline.spike({{Term::logits, Bytes(50)}, {Term::head_gradients, Bytes(30)}});
  timeline.enter(Phase::backward, "layer backward", 0);
  timeline.allocate(Term::gradients, Bytes(40));
  timeline.release(Term::saved_activations, Bytes(100));

  EXPECT_EQ(timeline.peak().bytes(), Bytes(180));
  EXPECT_EQ(timeline.peak().phase, Phase::loss);
  EXPECT_EQ(timeline.peak().holds[Term::logits], Bytes(50));
  EXPECT_EQ(timeline.peak().holds.part(MemoryPart::loss), Bytes(80));
  EXPECT_EQ(timeline.peak(Phase::backward).bytes(), Bytes(140));
  EXPECT_EQ(timeline.live().total(), Bytes(40));
}

TEST(Timeline, MomentsKeepTheHighestPointOfEachStretch) {
  Timeline timeline;
  timeline.enter(Phase::forward, "layer forward", 3);
  timeline.allocate(Term::saved_activations, Bytes(10));
  timeline.spike(Term::logits, Bytes(90));
  timeline.enter(Phase::step, "optimizer step");
  ASSERT_EQ(timeline.moments().size(), 2U);
  EXPECT_EQ(timeline.moments()[0].live, Bytes(100));
  EXPECT_EQ(timeline.moments()[0].layer, 3);
  EXPECT_EQ(timeline.moments()[1].live, Bytes(10));
}

TEST(Composition, PartsAddUpToTheTotal) {
  Composition composition;
  for (std::size_t i = 0; i < kTerms; ++i) composition.terms[i] = Bytes(static_cast<std::int64_t>(1) << i);
  Bytes sum{};
  for (const auto& [part, name] : EnumNames<MemoryPart>::table) sum += composition.part(part);
  EXPECT_EQ(sum, composition.total());
  EXPECT_EQ(sum, Bytes((std::int64_t{1} << kTerms) - 1));
}

TEST(Terms, HaveANameAFormulaAndASource) {
  for (std::size_t i = 0; i < kTerms; ++i) {
    const TermInfo& each = info(static_cast<Term>(i));
    EXPECT_FALSE(each.name.empty());
    EXPECT_FALSE(each.formula.empty()) << each.name;
    EXPECT_FALSE(each.source.empty()) << each.name;
  }
}

}  // namespace
}  // namespace zplan
