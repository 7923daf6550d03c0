// Formulas of other planners, worked by hand for Llama 3 8B: Ψ = 8,030,261,248, V·h = 525,336,576.

#include "planner/calibration/other_planners.h"

#include <gtest/gtest.h>

#include "hardware_profiles/cluster.h"
#include "models/catalogue/catalogue.h"
#include "tests/check/support.h"

namespace zplan::check::testing {
namespace {

Setup llama3_8b(int stage, std::int64_t ranks) {
  check::Setup setup{.model = resolve_model("meta-llama/Meta-Llama-3-8B", {})};
  setup.strategy.zero_stage = stage;
  setup.strategy.layout.shard = ranks;
  return setup;
}

constexpr double kPsi = 8'030'261'248, kEmbedding = 525'336'576;

TEST(DeepSpeedEstimator, IsStage2And3Only) {
  EXPECT_FALSE(deepspeed_estimator(llama3_8b(1, 8)));
  EXPECT_DOUBLE_EQ(*deepspeed_estimator(llama3_8b(2, 8)), 2 * kPsi + 18 * kPsi / 8);  // 34.1e9
  EXPECT_DOUBLE_EQ(*deepspeed_estimator(llama3_8b(3, 8)), 4 * kEmbedding + 18 * kPsi / 8);
}

TEST(DeepSpeedEstimator, WithOffload) {
  check::Setup setup = llama3_8b(2, 8);
  setup.strategy.offload_optimizer = OffloadDevice::cpu;
  EXPECT_DOUBLE_EQ(*deepspeed_estimator(setup), 2 * kPsi);
  setup.strategy.zero_stage = 3;
  EXPECT_DOUBLE_EQ(*deepspeed_estimator(setup), 4 * kEmbedding + 2 * kPsi / 8);
  setup.strategy.offload_parameters = OffloadDevice::cpu;
  EXPECT_DOUBLE_EQ(*deepspeed_estimator(setup), 4 * kEmbedding);
}

TEST(DeepSpeedEstimator, TakesNoAdapters) {
  check::Setup setup = llama3_8b(3, 8);
  setup.training.method = Method::lora;
  EXPECT_FALSE(deepspeed_estimator(setup));
}

TEST(ZeroPaper, TabulatesStates) {
  EXPECT_DOUBLE_EQ(*zero_paper_states(llama3_8b(0, 8)), 16 * kPsi);
  EXPECT_DOUBLE_EQ(*zero_paper_states(llama3_8b(1, 8)), 5.5 * kPsi);
  EXPECT_DOUBLE_EQ(*zero_paper_states(llama3_8b(2, 8)), 3.75 * kPsi);
  EXPECT_DOUBLE_EQ(*zero_paper_states(llama3_8b(3, 8)), 2 * kPsi);
}

// Ψ' = 2Vh + hs + 8hL + 2h + 4Lh² + 2Lhf = 6,965,698,560: two MLP matrices instead of three. At stage 2 on 8
// GPUs 2Ψ' + (4 + 12)Ψ'/8 + 1e9 and, recomputing, 34 B per token, layer and hidden unit: 2048·4096·32·34 =
// 9,126,805,504.
TEST(EleutherAi, CountsTwoMlpMatricesAndSelectiveRecomputation) {
  check::Setup setup = llama3_8b(2, 8);
  setup.training.sequence_length = 2048;
  constexpr double kCounted = 6'965'698'560, kActivations = 9'126'805'504;
  EXPECT_DOUBLE_EQ(*eleutherai_calculator(setup), 4 * kCounted + 1e9 + kActivations);
  // Without: 5·a·s more bytes per token and layer.
  setup.strategy.checkpointing = Checkpointing::none;
  EXPECT_DOUBLE_EQ(*eleutherai_calculator(setup),
                   4 * kCounted + 1e9 + kActivations + 2048.0 * 32 * 5 * 32 * 2048);
}

// Shared embeddings: Ψ' = Vh + L(2h² + 2h²·8/32 + 3hf + 2h) + h = 7,504,924,672. At stage 3 on 8 GPUs 14Ψ'/8,
// the larger of activations and 4Ψ'/8, and the larger of two gathered layers and the 16-bit logits.
TEST(LlmAnalysis, AddsPeaksOfItsOwn) {
  check::Setup setup = llama3_8b(3, 8);
  setup.training.sequence_length = 2048;
  constexpr double kCounted = 7'504'924'672, kTokens = 2048, kHidden = 4096;
  constexpr double kActivations =
      32 * 2 * kTokens * kHidden + 2 * kTokens * kHidden + 2 * kTokens * 128'256 + 4 * kTokens * kHidden;
  constexpr double kLayers = 2 * 2 * (2.5 * kHidden * kHidden + 3 * kHidden * 14'336 + 2 * kHidden);
  EXPECT_DOUBLE_EQ(*llm_analysis(setup),
                   14 * kCounted / 8 + std::max(kActivations, 4 * kCounted / 8) + kLayers);
}

TEST(ComparePlanners, JudgesTheSameRows) {
  Case measured{.id = "a",
                .file = "b",
                .kind = Kind::step,
                .measured = MeasuredMemory{{{Statistic::allocated, {kPsi * 4, kPsi * 4}}}, {}},
                .setup = llama3_8b(2, 8)};
  Record own;
  own.id = "a", own.file = "b", own.kind = Kind::step, own.statistic = Statistic::allocated;
  own.error = 0.25;
  const std::vector<PlannerComparison> all = compare_planners({measured}, {own});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].rows, 1U);
  EXPECT_NEAR(all[0].errors.median, 4.25 / 4 - 1, 1e-12);
  EXPECT_EQ(all[0].zplan_rows, 1U);
  EXPECT_DOUBLE_EQ(all[0].zplan_errors.median, 0.25);
  measured.skip.add("torch.compile");
  EXPECT_TRUE(compare_planners({measured}, {own}).empty());
}

}  // namespace
}  // namespace zplan::check::testing
