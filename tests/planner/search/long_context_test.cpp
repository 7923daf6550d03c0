// Ranks that divide a sample's tokens: groups, batches, rules, time, and the ladder of longest sequences.

#include "planner/frameworks/deepspeed/legality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/catalogue/catalogue.h"
#include "planner/plan/legality.h"
#include "planner/search/inverse.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Model llama(std::int64_t heads = 32, std::int64_t key_value_heads = 8) {
  const Json config = {{"model_type", "llama"},        {"hidden_size", heads * 64},
                       {"intermediate_size", 8192},    {"num_hidden_layers", 16},
                       {"num_attention_heads", heads}, {"num_key_value_heads", key_value_heads},
                       {"vocab_size", 128256},         {"max_position_embeddings", 131072},
                       {"tie_word_embeddings", false}};
  return read_config(JsonReader(config, "test model"));
}

Strategy ulysses(std::int64_t ranks, std::int64_t gpus, int stage = 3) {
  return {.zero_stage = stage, .layout = ParallelLayout{.sequence = ranks}.filling(gpus)};
}

std::vector<std::string> refused(const Model& model, const Training& training, const Strategy& strategy) {
  return why_illegal(model, training, strategy, {strategy.layout.world(), strategy.layout.world()});
}

TEST(LongContext, RanksOfASampleShareParametersAndNotSamples) {
  const Strategy strategy = ulysses(4, 16);
  EXPECT_EQ(strategy.layout.data_ranks(), 4);
  EXPECT_EQ(strategy.layout.gradient_ranks(), 16);
  EXPECT_EQ(strategy.global_batch_size(), 4);
  EXPECT_EQ(process_group(strategy.layout, Group::sequence), (ProcessGroup{4, 1}));
  EXPECT_EQ(process_group(strategy.layout, Group::data), (ProcessGroup{16, 1}));
  Training training;
  training.sequence_length = 65536;
  EXPECT_EQ(local_tokens(training, strategy), 16384);
}

TEST(LongContext, WhatUlyssesRefusesIsRefusedInItsWords) {
  Training training;
  training.sequence_length = 8192;
  EXPECT_THAT(refused(llama(), training, ulysses(8, 8)), IsEmpty());
  EXPECT_THAT(refused(llama(14, 2), training, ulysses(4, 4)),
              Contains(HasSubstr("Attention head count 14 is not divisible by SP size 4")));
  EXPECT_THAT(refused(llama(14, 2), training, ulysses(7, 7)),
              Contains(HasSubstr("KV attention head count 2 is not divisible by SP size 7 or vice versa")));
  training.sequence_length = 8194;
  EXPECT_THAT(refused(llama(), training, ulysses(4, 4)),
              Contains(HasSubstr("batch's seqlen=8194 isn't divisible by sp-size=4")));
  training.sequence_length = 8192, training.attention = Attention::eager;
  EXPECT_THAT(refused(llama(), training, ulysses(4, 4)), Contains(HasSubstr("eager")));
}

TEST(LongContext, ARingIsFsdps) {
  Training training;
  training.sequence_length = 8192;
  Strategy ring{.zero_stage = 3, .layout = {.context = 4}};
  EXPECT_THAT(refused(llama(), training, ring), Contains(HasSubstr("--framework fsdp")));
  training = with_framework(training, Framework::fsdp);
  EXPECT_THAT(refused(llama(), training, ring), IsEmpty());
  training.sequence_length = 8196;
  EXPECT_THAT(refused(llama(), training, ring), Contains(HasSubstr("multiple of 8 tokens")));
}

// ms-swift exchanges tokens for heads beside DDP and FSDP2, too.
TEST(LongContext, UlyssesBesideFsdpIsMsSwifts) {
  Training training = with_framework({}, Framework::fsdp);
  training.sequence_length = 8192;
  EXPECT_THAT(refused(llama(), training, ulysses(4, 4)), IsEmpty());
  EXPECT_THAT(refused(llama(), training, ulysses(3, 3)), Contains(HasSubstr("attention heads")));
  training.attention = Attention::eager;
  EXPECT_THAT(refused(llama(), training, ulysses(4, 4)), Contains(HasSubstr("flash or sdpa")));
}

// PyTorch 2.11: torch.zeros(2, 10, 4).chunk(2, dim=1)[0].view(-1, 4) raises the error that is quoted.
TEST(LongContext, Conv1DHasNoTiledFeedForward) {
  const Json config = {{"model_type", "gpt2"}, {"n_embd", 64},      {"n_layer", 2},
                       {"n_head", 4},          {"n_positions", 64}, {"vocab_size", 128}};
  const Model model = read_config(JsonReader(config, "test model"));
  Training training;
  training.sequence_length = 64;
  Strategy tiled{.zero_stage = 2, .layout = {.shard = 2}};
  EXPECT_THAT(refused(model, training, tiled), IsEmpty());
  tiled.long_context.tiled_mlp = 4;
  EXPECT_THAT(refused(model, training, tiled), Contains(HasSubstr("view size is not compatible")));
}

TEST(LongContext, TheNormIsTooLargeAtStages1And2) {
  for (int stage = 0; stage <= 3; ++stage) {
    const std::vector<std::string> warnings = long_context_warnings({}, ulysses(4, 8, stage));
    const bool warned = std::any_of(warnings.begin(), warnings.end(), [](const std::string& each) {
      return each.find("norm 4 times too large") != std::string::npos;
    });
    EXPECT_EQ(warned, stage == 1 || stage == 2) << stage;
  }
}

/// Both send as much, and the ring's calls run beside attention where an exchange waits.
TEST(LongContext, ARingHidesBehindAttention) {
  Training training = with_framework({}, Framework::fsdp);
  training.sequence_length = 262144;
  const Model model = llama();
  Strategy ring{
      .zero_stage = 3, .layout = {.context = 8}, .long_context = {.rotation = KeyRotation::all_to_all}};
  const Plan plan = make_plan(model, roomy_cluster(8), training, ring);
  Seconds keys;
  for (const Collective& each : plan.communication().collectives)
    if (each.group == Group::context) keys += each.time;
  EXPECT_GT(keys.value, 0);
  EXPECT_LT(plan.time.exposed_communication.value, plan.time.communication.value - 0.8 * keys.value);
}

TEST(LongContext, EachRungStandsOnThoseBefore) {
  ClusterRequest request{.gpu = "H100-SXM-80GB", .gpus = 8};
  Question q{.model = llama(),
             .cluster = assemble_cluster(request, built_in_profiles()),
             .training = {},
             .space = {},
             .headroom = {},
             .unit = {}};
  const std::vector<Rung> ladder = sequence_ladder(
      {.question = q, .cluster = request, .hardware = &built_in_profiles(), .model_of_size = infer_model});
  ASSERT_GE(ladder.size(), 5U);
  std::int64_t longest = 0;
  for (const Rung& each : ladder) {
    ASSERT_TRUE(each.tokens) << each.step;
    EXPECT_EQ(each.gained, *each.tokens - longest) << each.step;
    EXPECT_EQ(each.kept, each.gained >= 0) << each.step;
    EXPECT_TRUE(each.plan.fits) << each.step;
    if (each.kept) longest = *each.tokens;
  }
  EXPECT_GT(longest, 8 * *ladder.front().tokens);
}

}  // namespace
}  // namespace zplan::testing
