// Ranks that divide a mixture's experts: groups, a rank's tensors, what is held, rows by routing, rules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware_profiles/cluster.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "planner/plan/legality.h"
#include "planner/sharding/expert_model.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Model mixture(std::int64_t experts = 16) {
  const Json config = {{"model_type", "qwen3_moe"},   {"hidden_size", 256},
                       {"intermediate_size", 512},    {"num_hidden_layers", 4},
                       {"num_attention_heads", 8},    {"num_key_value_heads", 4},
                       {"vocab_size", 1024},          {"head_dim", 32},
                       {"num_experts", experts},      {"num_experts_per_tok", 4},
                       {"moe_intermediate_size", 96}, {"norm_topk_prob", true},
                       {"tie_word_embeddings", false}};
  return read_config(JsonReader(config, "test model"));
}

Strategy autoep(std::int64_t degree, std::int64_t gpus, int stage) {
  Strategy strategy{.zero_stage = stage, .layout = ParallelLayout{.expert = degree}.filling(gpus)};
  strategy.experts.enabled = true;
  return strategy;
}

RankModel rank_of(const Model& model, const Strategy& strategy) {
  return rank_model(with_local_experts(model, strategy), {}, strategy.layout.tensor);
}

Elements experts_in(const RankModel& rank) {
  Elements sum{};
  for (const RankTensor& each : rank.tensors)
    if (each.role == TensorRole::expert) sum += each.elements;
  return sum;
}

TEST(ExpertParallel, GroupsAreNeighboursUnlessDataComesFirst) {
  ParallelLayout layout = ParallelLayout{.tensor = 2, .expert = 4}.filling(16);
  EXPECT_EQ(process_group(layout, Group::expert), (ProcessGroup{4, 1}));
  EXPECT_EQ(process_group(layout, Group::expert_data), (ProcessGroup{4, 4}));
  EXPECT_EQ(process_group(layout, Group::data), (ProcessGroup{8, 2}));
  layout.data_before_expert = true;
  EXPECT_EQ(process_group(layout, Group::expert), (ProcessGroup{4, 4}));
  EXPECT_EQ(process_group(layout, Group::expert_data), (ProcessGroup{4, 1}));
}

TEST(ExpertParallel, ARankHasItsOwnExpertsAndEverythingElse) {
  const Model model = mixture();
  const RankModel whole = rank_of(model, {.zero_stage = 3});
  for (const std::int64_t degree : {1, 2, 8, 16}) {
    const RankModel rank = rank_of(model, autoep(degree, 16, 3));
    EXPECT_EQ(experts_in(rank) * degree, experts_in(whole)) << degree;
    EXPECT_EQ(rank.trainable - experts_in(rank), whole.trainable - experts_in(whole)) << degree;
  }
}

// A rank's share of experts' states does not depend on the degree; the 16-bit copy at stages 1 and 2 shrinks.
TEST(ExpertParallel, TheDegreeChangesTheWeightsOfStages1And2Alone) {
  const Model model = mixture();
  const auto shard = [&](std::int64_t degree, int stage) {
    const Strategy strategy = autoep(degree, 16, stage);
    return make_shard(rank_of(model, strategy), {}, strategy);
  };
  for (const std::int64_t degree : {2, 4, 16}) {
    EXPECT_EQ(shard(degree, 3).parameters, shard(1, 3).parameters);
    for (const int stage : {1, 2, 3}) {
      EXPECT_EQ(shard(degree, stage).master_weights, shard(1, stage).master_weights);
      EXPECT_EQ(shard(degree, stage).moments, shard(1, stage).moments);
    }
    EXPECT_LT(shard(degree, 2).parameters, shard(1, 2).parameters);
  }
}

TEST(ExpertParallel, OptimizerGroupsAreLimitedAndRoutersComeLast) {
  const Model model = mixture();
  const Strategy strategy = autoep(2, 4, 2);
  const RankModel rank = rank_of(model, strategy);
  const std::vector<OptimizerGroup> groups = optimizer_groups(rank, {}, strategy);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].sharing, Sharing::dense);
  EXPECT_EQ(groups[1].elements, experts_in(rank));
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(rank.tensors[groups[0].tensors[groups[0].tensors.size() - 1 - i]].role, TensorRole::router);
}

TEST(ExpertParallel, TheFirstRankGetsWhatTheRoutingSays) {
  const Model model = mixture();
  const Strategy strategy = autoep(4, 8, 2);
  Training training;
  training.sequence_length = 1000;
  EXPECT_EQ(routed_rows(model, training, strategy, 0), (RoutedRows{4000, 4000}));
  training.routing_skew = 2;
  EXPECT_EQ(routed_rows(model, training, strategy, 0), (RoutedRows{4000, 8000}));
  std::int64_t received = 0;
  for (std::int64_t rank = 0; rank < 4; ++rank)
    received += routed_rows(model, training, strategy, rank).received;
  EXPECT_EQ(received, 4 * 4000);
}

TEST(ExpertParallel, IsDeepSpeedsAndForMixtures) {
  const auto refused = [](const Model& model, const Training& training, const Strategy& strategy) {
    return why_illegal(model, training, strategy, {strategy.layout.world(), strategy.layout.world()});
  };
  EXPECT_THAT(refused(mixture(), {}, autoep(4, 8, 2)), IsEmpty());
  EXPECT_THAT(refused(mixture(12), {}, autoep(8, 8, 2)),
              Contains(HasSubstr("is not divisible by autoep_size=8")));
  Training adapted;
  adapted.method = Method::lora;
  adapted.lora_targets.modules = {"q_proj", "v_proj"};
  EXPECT_THAT(refused(mixture(), adapted, autoep(4, 8, 2)), Contains(HasSubstr("marked as MoE")));
  EXPECT_THAT(refused(mixture(), adapted, autoep(4, 8, 3)), IsEmpty());
  EXPECT_THAT(refused(mixture(), with_framework({}, Framework::fsdp), autoep(4, 8, 3)),
              Contains(HasSubstr("AutoEP alone")));
}

}  // namespace
}  // namespace zplan::testing
