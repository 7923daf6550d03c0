// Reinforcement learning: what is scored and generated beside a step, the engine's share, and what refuses.

#include "planner/question/rollout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/rollout_time.h"
#include "planner/moments/rollout.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan_context.h"
#include "planner/search/candidates.h"
#include "planner/search/families.h"
#include "planner/search/family.h"
#include "tests/planner/support.h"

namespace zplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::roomy_cluster;
using testing::tiny_llama;

Model small_model() {
  return tiny_llama({{"hidden", 256},
                     {"ffn", 512},
                     {"layers", 4},
                     {"heads", 4},
                     {"kv", 2},
                     {"vocab", 8192},
                     {"tie", false}});
}

Training grpo() {
  Training training;
  training.objective = Objective::grpo;
  training.sequence_length = 512;
  training.padding_mask = true;
  return training;
}

Strategy on(std::int64_t gpus, int stage, std::int64_t micro_batch = 2) {
  Strategy strategy{.zero_stage = stage, .micro_batch_size = micro_batch};
  strategy.layout.shard = gpus;
  return strategy;
}

class Rollouts : public ::testing::Test {
 protected:
  [[nodiscard]] Plan plan(const Training& training, const Strategy& strategy) const {
    return make_plan(model_, cluster_, training, strategy);
  }
  [[nodiscard]] static std::optional<Bytes> device_at(const Plan& plan, RunMoment moment) {
    const auto found = std::ranges::find(plan.moments, moment, &MomentMemory::moment);
    return found == plan.moments.end() ? std::nullopt : std::optional(found->device);
  }
  Model model_ = small_model();
  Cluster cluster_ = roomy_cluster(4);
};

TEST_F(Rollouts, HalfOfASampleIsGeneratedUnlessSaid) {
  Training training = grpo();
  EXPECT_EQ(completion_tokens(training), 256);
  training.rollout.completion_length = 100;
  EXPECT_EQ(completion_tokens(training), 100);
}

TEST_F(Rollouts, AGenerationHoldsWholeGroups) {
  const Training training = grpo();  // groups of 8
  EXPECT_EQ(micro_steps_fed(training, on(4, 2, 2)), 1);
  EXPECT_EQ(micro_steps_fed(training, on(1, 0, 2)), 4);
  EXPECT_EQ(micro_steps_fed(training, on(1, 0, 3)), 8);
  Strategy accumulated = on(1, 0, 4);
  accumulated.gradient_accumulation_steps = 3;
  EXPECT_EQ(micro_steps_fed(training, accumulated), 6);
}

TEST_F(Rollouts, PartOfAGroupIsRefused) {
  Training training = grpo();
  training.rollout.steps_per_generation = 3;
  EXPECT_THAT(why_illegal(model_, training, on(1, 0, 2), {1, 1}), Contains(HasSubstr("whole groups of 8")));
  training.rollout.generations = 6;
  EXPECT_TRUE(why_illegal(model_, training, on(1, 0, 2), {1, 1}).empty());
}

TEST_F(Rollouts, WholeLogitsUnderAutocastArePlanned) {
  Training training = with_framework(grpo(), Framework::torch);
  const World one{1, 1};
  EXPECT_TRUE(why_illegal(model_, training, on(1, 0, 8), one).empty());
  training.fused_head = true;
  EXPECT_TRUE(why_illegal(model_, training, on(1, 0, 8), one).empty());
}

TEST_F(Rollouts, ThePolicyIsScoredAsTheReleaseDoes) {
  Training training = grpo();
  training.rollout.engine = RolloutEngine::colocate;
  EXPECT_TRUE(scores_policy(training));
  training.rollout.scoring = PolicyScoring::where_steps_part;
  EXPECT_FALSE(scores_policy(training));
  training.rollout.iterations = 2;
  EXPECT_TRUE(scores_policy(training));
  training.rollout.iterations = 1, training.rollout.engine = RolloutEngine::trainer;
  training.rollout.scoring = PolicyScoring::always;
  EXPECT_TRUE(scores_policy(training));
}

TEST_F(Rollouts, ThePolicyIsScoredWhereItMayDifferFromWhatGenerated) {
  Training training = grpo();
  EXPECT_TRUE(scores_policy(training));  // an engine's log-probabilities differ
  training.rollout.engine = RolloutEngine::trainer;
  EXPECT_FALSE(scores_policy(training));
  training.rollout.iterations = 2;
  EXPECT_TRUE(scores_policy(training));
}

TEST_F(Rollouts, AnEngineThatStaysAwakeIsInEveryMoment) {
  Training training = grpo();
  training.rollout.engine_share = 0.5;
  const Plan awake = plan(training, on(4, 2));
  training.rollout.sleep_level = 2;
  const Plan asleep = plan(training, on(4, 2));
  const Bytes share(cluster_.usable_memory.value / 2);
  EXPECT_EQ(*device_at(awake, RunMoment::training) - *device_at(asleep, RunMoment::training), share);
  EXPECT_EQ(device_at(awake, RunMoment::generation), device_at(asleep, RunMoment::generation));
  EXPECT_EQ(*device_at(awake, RunMoment::scoring) - *device_at(asleep, RunMoment::scoring), share);
  EXPECT_LT(device_at(asleep, RunMoment::weight_sync), device_at(asleep, RunMoment::generation));
}

TEST_F(Rollouts, TheWorstPhaseIsWhatIsNeeded) {
  Training training = grpo();
  training.rollout.engine_share = 0.8;
  training.rollout.sleep_level = 2;
  const Plan asleep = plan(training, on(4, 2));
  EXPECT_EQ(asleep.memory().required, *device_at(asleep, RunMoment::generation));
  EXPECT_GT(*device_at(asleep, RunMoment::generation), *device_at(asleep, RunMoment::training));
  EXPECT_TRUE(asleep.fits);
  training.rollout.engine_share = 0.95;
  EXPECT_FALSE(plan(training, on(4, 2)).fits);
}

TEST_F(Rollouts, SleepAtLevelOneKeepsWeightsOnTheHost) {
  Training training = grpo();
  training.rollout.sleep_level = 2;
  const Bytes without = most_on_host(plan(training, on(4, 2)).moments);
  training.rollout.sleep_level = 1;
  const Bytes with = most_on_host(plan(training, on(4, 2)).moments);
  EXPECT_GE((with - without).value, 2 * parameters(model_).value);
}

TEST_F(Rollouts, AServerTakesNothingOfTheTrainersGpus) {
  Training training = grpo();
  training.rollout.engine = RolloutEngine::server;
  const Plan served = plan(training, on(4, 2));
  EXPECT_FALSE(device_at(served, RunMoment::generation));
  EXPECT_TRUE(device_at(served, RunMoment::weight_sync));
  EXPECT_EQ(served.memory().peak.holds[Term::engine], Bytes{});
}

TEST_F(Rollouts, AdaptersAreMergedIntoTheWholeModelAtStage3) {
  Training training = grpo();
  training.rollout.engine = RolloutEngine::server;
  const auto gathered = [&](const Training& of) {
    const Plan plan = this->plan(of, on(4, 3));
    for (const MomentMemory& each : plan.moments)
      if (each.moment == RunMoment::weight_sync) return each.parts.back().device;
    return Bytes{};
  };
  const Bytes one = gathered(training);
  training.method = Method::lora;
  EXPECT_EQ(gathered(training), parameters(model_) * Bytes(2));
  EXPECT_LT(one, parameters(model_) * Bytes(2));
}

TEST_F(Rollouts, AReferenceAddsItsWeights) {
  Training training = grpo();
  training.rollout.sleep_level = 2;
  const Bytes without = plan(training, on(4, 2)).memory().peak_allocated;
  training.reference = ReferenceModel::copy;
  const Bytes with = plan(training, on(4, 2)).memory().peak_allocated;
  EXPECT_NEAR(number_of_bytes(with - without), number_of_bytes(parameters(model_) * Bytes(2)), 1e6);
}

/// Halving what an engine's GPU has to read halves the time; sequences that find no room wait.
TEST_F(Rollouts, GenerationTakesWhatItReads) {
  Training training = grpo();
  training.rollout.engine_share = 0.5;
  const Seconds once = rollout_time(model_, training, on(4, 2), cluster_).completions;
  Cluster faster = cluster_;
  faster.gpu.memory_bandwidth = faster.gpu.memory_bandwidth * 2.0;
  EXPECT_NEAR(rollout_time(model_, training, on(4, 2), faster).completions.value, once.value / 2,
              once.value / 100);
  const EngineMemory engine = engine_memory(model_, training, on(4, 2), cluster_.usable_memory);
  EXPECT_EQ(engine.at_once(), engine.wanted);
  const EngineMemory tight{.share = Bytes(1000),
                           .weights = Bytes(300),
                           .activations = Bytes(200),
                           .sequence = Bytes(200),
                           .wanted = 8};
  EXPECT_EQ(tight.at_once(), 2);
}

/// The trainer's own model keeps no engine's share of the memory: more of it changes nothing.
TEST_F(Rollouts, OwnGenerationDoesNotDependOnFreeMemory) {
  Training training = grpo();
  training.rollout.engine = RolloutEngine::trainer;
  const Seconds once = rollout_time(model_, training, on(4, 2), cluster_).completions;
  Cluster small = cluster_;
  small.usable_memory = Bytes(cluster_.usable_memory.value / 100);
  EXPECT_EQ(rollout_time(model_, training, on(4, 2), small).completions, once);
  // Each token waits for the host to issue its kernels.
  const ChunkTime chunk = chunk_time(model_, training, on(4, 2), cluster_);
  EXPECT_GE(once, chunk.token_host * static_cast<double>(completion_tokens(training)));
  EXPECT_EQ(chunk.scoring, Seconds{});
}

TEST_F(Rollouts, MoreIterationsShareOneGeneration) {
  Training training = grpo();
  const Seconds once = rollout_time(model_, training, on(4, 2), cluster_).total();
  training.rollout.iterations = 4;
  EXPECT_NEAR(rollout_time(model_, training, on(4, 2), cluster_).total().value, once.value / 4,
              once.value / 1000);
}

// ---- PPO: a model of values that trains beside the policy, of another depth and width

Model with_values(Model policy) {
  const Model other = tiny_llama({{"hidden", 128},
                                  {"ffn", 384},
                                  {"layers", 7},
                                  {"heads", 4},
                                  {"kv", 4},
                                  {"vocab", 8192},
                                  {"tie", false}});
  policy.value = policy.reward = std::make_shared<const Model>(scoring_model(other));
  return policy;
}

Training ppo(Method method) {
  Training training = grpo();
  training.objective = Objective::ppo;
  training.framework = Framework::torch;
  training.master_weights = false;
  training.rollout.engine = RolloutEngine::trainer;
  training.method = method;
  return training;
}

Strategy on_one(std::int64_t micro_steps, Checkpointing checkpointing) {
  Strategy strategy = on(1, 0);
  strategy.gradient_accumulation_steps = micro_steps;
  strategy.checkpointing = checkpointing;
  return strategy;
}

TEST(PpoTraining, PolicyAndValueModelTrainTogether) {
  const Model model = with_values(small_model());
  const Elements values = elements(model.value->inventory);
  EXPECT_EQ(rank_model(model, ppo(Method::full), 1).trainable, elements(model.inventory) + values);
  const RankModel adapted = rank_model(model, ppo(Method::lora), 1);
  EXPECT_EQ(adapted.frozen, elements(model.inventory));
  EXPECT_EQ(adapted.trainable - values, rank_model(small_model(), ppo(Method::lora), 1).trainable);
}

// Every parameter gets its own gradient, and what a micro-step made is gone but for the generation's scores.
TEST(PpoTraining, OnlyTheScoresOfAGenerationOutliveAStep) {
  const Model model = with_values(small_model());
  for (const Method method : {Method::full, Method::lora})
    for (const std::int64_t micro_steps : {1, 4})
      for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::full}) {
        const Strategy strategy = on_one(micro_steps, checkpointing);
        const RankRun run(model, ppo(method), strategy, {});
        const RunResult whole = simulate_live_from_whole_tape(run.inputs());
        for (const Term term : {Term::saved_activations, Term::layer_working_set, Term::gradients,
                                Term::head_gradients, Term::loss_temporaries})
          EXPECT_EQ(whole.left[term], Bytes(0)) << info(term).name;
        // 2 sequences of 256 generated tokens and 8192 scores, in fp32, for each micro-step.
        EXPECT_EQ(whole.left[Term::logits], Bytes(4 * 2 * 256 * 8192 * micro_steps));
        const RunResult condensed = simulate_live(run.inputs());
        EXPECT_EQ(condensed.peak, whole.peak);
        EXPECT_EQ(condensed.phases, whole.phases);
        EXPECT_EQ(condensed.held, whole.held);
      }
}

const MomentMemory& moment_of(const Plan& plan, RunMoment moment) {
  return *std::ranges::find(plan.moments, moment, &MomentMemory::moment);
}
Bytes part_of(const Plan& plan, RunMoment moment, std::string_view name) {
  for (const Resident& each : moment_of(plan, moment).parts)
    if (each.name == name) return each.device;
  return {};
}

Plan planned(const Training& training, const Strategy& strategy) {
  return make_plan(with_values(small_model()), roomy_cluster(1), training, strategy);
}

// 8 samples of 256 tokens and 8192 scores in fp32: those of a chunk are stacked while its keys and values
// exist, and all of them padded beside the chunks'; the generation before is held.
TEST(PpoRollout, ScoresOfAGenerationAreThereThreeTimes) {
  Training training = ppo(Method::full);
  const Strategy strategy = on_one(4, Checkpointing::none);  // 2 samples each
  const Bytes scores = Bytes(4) * (8 * 256 * 8192);
  EXPECT_EQ(generation_scores(training, strategy, 8192), scores);
  const Plan whole = planned(training, strategy);
  EXPECT_EQ(part_of(whole, RunMoment::generation, "scores of a chunk, and once more as they are stacked"),
            scores * 2);
  // 4 layers, 2 heads of 64: the last of 512 tokens was not computed.
  EXPECT_EQ(part_of(whole, RunMoment::generation, "keys and values of a chunk"),
            Bytes(2) * (8 * 4 * 511 * 2 * 2 * 64));
  training.rollout.forward_batch = 2;
  const Plan chunks = planned(training, strategy);
  EXPECT_EQ(part_of(chunks, RunMoment::generation, "scores of all chunks, and once more as they are padded"),
            scores * 2);
  EXPECT_LT(moment_of(chunks, RunMoment::generation).device, moment_of(whole, RunMoment::generation).device);
}

TEST(PpoRollout, ChunksArePaddedToOneSize) {
  Training training = ppo(Method::full);
  training.rollout.forward_batch = 3;  // of 8 samples: 3, 3, 2
  EXPECT_EQ(generation_scores(training, on_one(4, Checkpointing::none), 8192), Bytes(4) * (9 * 256 * 8192));
}

TEST(PpoRollout, SmallerChunksScoreWithFewerLogits) {
  Training training = ppo(Method::full);
  const Strategy strategy = on_one(4, Checkpointing::none);
  constexpr std::string_view kReference = "forward of the reference over a chunk, with whole logits";
  const Bytes whole = part_of(planned(training, strategy), RunMoment::scoring, kReference);
  training.rollout.forward_batch = 2;
  const Bytes chunk = part_of(planned(training, strategy), RunMoment::scoring, kReference);
  const Bytes logits = Bytes(2) * (512 * 8192);
  EXPECT_GE(whole - chunk, logits * 6);
  EXPECT_GE(chunk, logits * 2);
}

TEST(PpoRollout, TheWorstPhaseIsWhatIsNeeded) {
  Training training = ppo(Method::lora);
  const Plan plan = planned(training, on_one(16, Checkpointing::full));
  const Bytes generation = moment_of(plan, RunMoment::generation).device;
  EXPECT_GT(generation, moment_of(plan, RunMoment::training).device);
  EXPECT_EQ(plan.memory().required, generation);
  Cluster small = roomy_cluster(1);
  small.usable_memory = generation - kMiB;
  const Plan short_plan = make_plan(with_values(small_model()), small, training,
                                    on_one(16, Checkpointing::full), Headroom{.fraction = 0});
  EXPECT_FALSE(short_plan.fits);
}

// A micro-step's remains are freed when the next one begins a mini-batch.
TEST(PpoRollout, AMiniBatchBeginsAnew) {
  Training training = ppo(Method::full);
  const Strategy strategy = on_one(4, Checkpointing::full);
  EXPECT_TRUE(follows_micro_step(training, strategy));
  const Bytes one = planned(training, strategy).memory().peak_allocated;
  training.rollout.mini_batches = 2;
  EXPECT_EQ(planned(training, strategy).memory().peak_allocated, one);
  training.rollout.mini_batches = 4;
  EXPECT_FALSE(follows_micro_step(training, strategy));
  EXPECT_LT(planned(training, strategy).memory().peak_allocated, one);
}

TEST(PpoRollout, EpochsShareGenerationAndScoring) {
  Training training = ppo(Method::full);
  const Strategy strategy = on_one(4, Checkpointing::none);
  const StepTime four = planned(training, strategy).time;  // num_ppo_epochs
  training.rollout.iterations = 1;
  const StepTime one = planned(training, strategy).time;
  EXPECT_NEAR(one.generation.value, 4 * four.generation.value, 1e-9);
  EXPECT_NEAR(one.scoring.value, 4 * four.scoring.value, 1e-9);
  EXPECT_GT(one.scoring.value, 0);
  // Each chunk is generated token by token.
  training.rollout.forward_batch = 2;
  EXPECT_GT(planned(training, strategy).time.generation.value, 2 * one.generation.value);
}

// A search's estimates are of the same phases.
TEST(PpoRollout, AnEstimateCountsThem) {
  const Model model = with_values(small_model());
  const Cluster cluster = roomy_cluster(1);
  for (const Method method : {Method::full, Method::lora})
    for (const std::int64_t micro_steps : {1, 2, 16}) {
      const Training training = ppo(method);
      PlanContext context(model, cluster, training, Headroom{});
      const Strategy strategy = on_one(micro_steps, Checkpointing::full);
      PlanScreen screen(context);
      PlanFamily family = screen.family(strategy);
      const Estimate estimate = family.estimate(2, micro_steps);
      const Plan plan = context.outline(strategy);
      EXPECT_LE(estimate.required_low, plan.memory().required_low) << micro_steps;
      EXPECT_GE(number_of_bytes(estimate.required_low), 0.97 * number_of_bytes(plan.memory().required_low))
          << micro_steps;
      EXPECT_NEAR(estimate.step.value, plan.time.step.value, plan.time.step.value / 1000);
    }
}

class PpoLegality : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> reasons(const Strategy& strategy, std::int64_t gpus = 1) const {
    return why_illegal(model_, training_, strategy, {gpus, gpus});
  }
  Model model_ = with_values(small_model());
  Training training_ = ppo(Method::full);
};

TEST_F(PpoLegality, OneGpuAndTheLowerStagesArePlanned) {
  EXPECT_TRUE(reasons(on_one(4, Checkpointing::none)).empty());
  training_.framework = Framework::deepspeed;
  for (const int stage : {0, 1, 2}) EXPECT_TRUE(reasons(on(4, stage), 4).empty()) << stage;
  EXPECT_THAT(reasons(on(4, 3), 4), Contains(HasSubstr("holds its models whole")));
  Strategy offloaded = on(4, 2);
  offloaded.offload_optimizer = OffloadDevice::cpu;
  EXPECT_THAT(reasons(offloaded, 4), Contains(HasSubstr("ppo with offload")));
}

// Whatever else the batch is: a legal strategy has batches of both kinds.
TEST_F(PpoLegality, MiniBatchesAreWholeMicroSteps) {
  training_.rollout.mini_batches = 3;
  Question q{
      .model = model_, .cluster = roomy_cluster(1), .training = training_, .space = {}, .headroom = {}};
  q.space.gradient_accumulation_steps = 4;
  Strategy strategy = on_one(1, Checkpointing::none);
  EXPECT_THAT(set_batch(q, strategy, 2).value_or(""), HasSubstr("--mini-batches"));
  q.space.gradient_accumulation_steps = 6;
  EXPECT_EQ(set_batch(q, strategy, 2), std::nullopt);
  Scope scope;
  scope.accumulations = {1, 2, 3, 4, 6};
  ASSERT_EQ(batches(scope, {.shard = 1}, 3).size(), 2U);
  EXPECT_EQ(batches(scope, {.shard = 1}, 3).back().accumulation, 6);
}

TEST_F(PpoLegality, FusedHeadsAndPackedWeightsAreRefused) {
  training_.fused_head = true;
  EXPECT_THAT(reasons(on_one(1, Checkpointing::none)), Contains(HasSubstr("without --fused-head")));
  training_.fused_head = false, training_.method = Method::qlora;
  EXPECT_THAT(reasons(on_one(1, Checkpointing::none)), Contains(HasSubstr("--method lora")));
}

// peft's adapters are switched off by way of an attribute that DistributedDataParallel does not have.
TEST_F(PpoLegality, AdaptersUnderDdpAreRefused) {
  EXPECT_TRUE(reasons(on(4, 0), 4).empty());
  training_.method = Method::lora;
  EXPECT_THAT(reasons(on(4, 0), 4), Contains(HasSubstr("DDP")));
  EXPECT_TRUE(reasons(on_one(1, Checkpointing::none)).empty());
}

TEST_F(PpoLegality, ModelsThatScoreHaveAProgram) {
  Model other = *model_.value;
  other.analogue = std::make_shared<const Model>(small_model());
  model_.reward = std::make_shared<const Model>(other);
  EXPECT_THAT(reasons(on_one(1, Checkpointing::none)), Contains(HasSubstr("--reward-model")));
}

// Logits and hidden states stay in the loop's variables through the step: what the optimizer takes for a
// moment comes on top.
TEST(PpoTraining, TheOptimizersTemporariesComeOnTopOfThePolicysOutputs) {
  const Model model = with_values(small_model());
  Training training = ppo(Method::full);
  training.optimizer_kernel = OptimizerKernel::fused;
  const Strategy strategy = on_one(1, Checkpointing::full);
  const auto step_peak = [&] {  // but for the libraries' workspaces, which stay
    const RankRun run(model, training, strategy, {});
    const RunResult result = simulate_live(run.inputs());
    return result.phases[static_cast<std::size_t>(Phase::step)].requested -
           result.left[Term::cublas_workspace];
  };
  const Bytes fused = step_peak();
  const Elements trained = rank_model(model, training, 1).trainable;
  // Weights of 16 bits, a gradient and two states each; reference and reward model.
  const Bytes models =
      trained * Bytes(8) + (elements(model.inventory) + elements(model.reward->inventory)) * Bytes(2);
  // Logits of 2 · 512 tokens, and the hidden states around 4 layers.
  const Bytes outputs = Bytes(2 * 2 * 512) * (8192 + 5 * 256);
  const Bytes generated = generation_scores(training, strategy, 8192) + rollout_bytes(training, strategy);
  EXPECT_GE(fused, models + outputs + generated);
  EXPECT_LE(fused, models + outputs + generated + kMiB);
  training.optimizer_kernel = OptimizerKernel::foreach;
  EXPECT_GE(step_peak() - fused + kMiB, trained * Bytes(2));
}

}  // namespace
}  // namespace zplan
