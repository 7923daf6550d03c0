// Objectives beside next tokens under Megatron-Core, as ms-swift 4.6 trains them: what a reference model and
// a teacher hold, and what stages send. Figures follow from its source (swift/megatron/trainers/): steps of
// it were not recorded.

#include <gtest/gtest.h>

#include "hardware_profiles/cluster.h"
#include "planner/plan/plan_context.h"
#include "planner/question/framework.h"
#include "planner/question/lengths.h"
#include "planner/sharding/megatron_model.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

/// Two stages of two layers.
class MegatronObjectives : public ::testing::Test {
 protected:
  static constexpr std::int64_t kStages = 2, kTokens = 64, kMicroBatches = 4, kVocabulary = 512;

  MegatronObjectives() {
    training_.sequence_length = kTokens;
    strategy_.zero_stage = 1;
    strategy_.checkpointing = Checkpointing::none;
    strategy_.megatron = recommended_megatron_options();
    strategy_.gradient_accumulation_steps = kMicroBatches;
  }
  [[nodiscard]] RankRun stage(std::int64_t which) const {
    return {model_, training_, strategy_, RankRun::target_of(cluster_), RankClass{.stage = which}};
  }
  [[nodiscard]] RunResult played(std::int64_t which) const { return simulate_live(stage(which).inputs()); }
  /// Elements that a stage sends in a step.
  [[nodiscard]] std::int64_t sent(std::int64_t which) const {
    std::int64_t all = 0;
    for (const Call& each : played(which).calls)
      if (each.operation == Operation::send_recv) all += each.elements.value * each.times;
    return all;
  }
  [[nodiscard]] Bytes initialised(std::int64_t which) const { return played(which).initialisation.requested; }

  Model model_ = tiny_llama({{"hidden", 256},
                             {"ffn", 512},
                             {"layers", 4},
                             {"heads", 4},
                             {"kv", 4},
                             {"vocab", kVocabulary},
                             {"tie", false}});
  Cluster cluster_ = roomy_cluster(kStages);
  Training training_ = with_framework({}, Framework::megatron);
  Strategy strategy_{.layout = {.pipeline = kStages}};
};

TEST_F(MegatronObjectives, SendTheReferencesHiddenStatesBesideThePolicys) {
  const std::int64_t of_tokens = sent(0);
  training_.objective = Objective::dpo;
  EXPECT_EQ(sent(0), 4 * of_tokens);  // two answers of each sample, of two models
  training_.objective = Objective::kto;
  EXPECT_EQ(sent(0), 4 * of_tokens);  // an answer and an unrelated one, of two models
  training_.objective = Objective::grpo;
  EXPECT_EQ(sent(0), of_tokens);
}

TEST_F(MegatronObjectives, HoldAFrozenCopyOfEachStage) {
  const Bytes angles = Bytes(4) * kTokens * model_.shape.head_size;
  for (std::int64_t i = 0; i < kStages; ++i) {
    training_.objective = Objective::sft;
    const Bytes alone = initialised(i);
    const Elements own = elements(stage(i).model().inventory);
    training_.objective = Objective::dpo;
    // The buffer in which the head gathers its input has two answers of each sample.
    const Bytes gathered = i + 1 < kStages ? Bytes{} : Bytes(2) * (kTokens * model_.shape.hidden_size);
    EXPECT_EQ(initialised(i) - alone, own * Bytes(2) + angles + gathered) << "stage " << i;
  }
}

TEST_F(MegatronObjectives, KeepATeachersLogitsOfAllMicroBatchesOnTheLastStage) {
  training_.objective = Objective::gkd;
  training_.distillation.in_slices = true;
  const Bytes logits = Bytes(2) * kMicroBatches * kTokens * padded_vocabulary(kVocabulary, 1);
  const auto of_logits = [this](std::int64_t which) { return played(which).peak.holds[Term::logits]; };
  EXPECT_GE(of_logits(1), logits);
  EXPECT_LT(of_logits(0), logits);
}

TEST_F(MegatronObjectives, NeedTheSameWhetherTapesAreCondensedOrNot) {
  for (const Objective objective : {Objective::dpo, Objective::kto, Objective::grpo, Objective::gkd}) {
    training_.objective = objective;
    training_.distillation.in_slices = true;
    for (std::int64_t i = 0; i < kStages; ++i) {
      const RankRun run = stage(i);
      const RunResult whole = simulate_live_from_whole_tape(run.inputs()),
                      condensed = simulate_live(run.inputs());
      EXPECT_EQ(condensed.peak_allocated, whole.peak_allocated) << to_name(objective) << ", stage " << i;
      EXPECT_EQ(condensed.left, whole.left) << to_name(objective);
      EXPECT_EQ(condensed.calls, whole.calls) << to_name(objective);
    }
  }
}

}  // namespace
}  // namespace zplan::testing
