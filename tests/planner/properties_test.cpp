// Properties of plans for every model, stage and number of ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "models/base/divisors.h"
#include "planner/explain/why.h"
#include "planner/plan/plan_context.h"
#include "planner/question/work.h"
#include "planner/search/candidates.h"
#include "planner/search/findings.h"
#include "planner/search/search.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

struct PropertyCase {
  std::string name;
  Model model;
  std::int64_t gpus;
};
void PrintTo(const PropertyCase& each, std::ostream* out) { *out << each.name; }

Model model_of(const Json& config) { return read_config(JsonReader(config, "test model")); }

std::vector<PropertyCase> property_cases() {
  const Json llama = {{"model_type", "llama"},   {"hidden_size", 2048},       {"intermediate_size", 5632},
                      {"num_hidden_layers", 22}, {"num_attention_heads", 32}, {"num_key_value_heads", 4},
                      {"vocab_size", 32000}};
  Json tied = llama;
  tied["tie_word_embeddings"] = true;
  const Json gpt2 = {
      {"model_type", "gpt2"}, {"n_embd", 1600}, {"n_layer", 48}, {"n_head", 25}, {"vocab_size", 50257}};
  const Json moe = {{"model_type", "qwen3_moe"}, {"hidden_size", 2048},         {"intermediate_size", 6144},
                    {"num_hidden_layers", 6},    {"num_attention_heads", 32},   {"num_key_value_heads", 4},
                    {"head_dim", 128},           {"vocab_size", 151936},        {"num_experts", 128},
                    {"num_experts_per_tok", 8},  {"moe_intermediate_size", 768}};
  std::vector<PropertyCase> all;
  for (const std::int64_t gpus : {1, 2, 3, 5, 8, 64}) {
    const std::string world = "_on_" + std::to_string(gpus);
    all.push_back({"llama" + world, model_of(llama), gpus});
    all.push_back({"tied" + world, model_of(tied), gpus});
    all.push_back({"gpt2" + world, model_of(gpt2), gpus});
    all.push_back({"mixture" + world, model_of(moe), gpus});
  }
  return all;
}

class EveryModelAndWorld : public ::testing::TestWithParam<PropertyCase> {
 protected:
  [[nodiscard]] Strategy strategy(int stage) const {
    Strategy s;
    s.zero_stage = stage;
    s.layout.shard = GetParam().gpus;
    s.zero = zero_options(Buckets::hf_auto, GetParam().model.shape.hidden_size);
    return s;
  }
  [[nodiscard]] Plan plan(const Strategy& s, const Training& training = {}) const {
    return make_plan(GetParam().model, roomy_cluster(GetParam().gpus), training, s);
  }
};

TEST_P(EveryModelAndWorld, AHigherStageNeverHoldsMoreState) {
  for (const Precision precision : {Precision::bf16, Precision::fp32}) {
    Training training;
    training.precision = precision;
    SteadyState before = plan(strategy(0), training).memory().steady;
    for (int stage = 1; stage <= 3; ++stage) {
      const SteadyState now = plan(strategy(stage), training).memory().steady;
      EXPECT_LE(now.parameters, before.parameters);
      EXPECT_LE(now.gradients, before.gradients);
      EXPECT_LE(now.optimizer_states, before.optimizer_states);
      before = now;
    }
  }
}

TEST_P(EveryModelAndWorld, OnOneGpuZeroIsANoOp) {
  if (GetParam().gpus > 1) return;
  const Plan whole = plan(strategy(0));
  for (int stage = 1; stage <= 3; ++stage) {
    const Plan sharded = plan(strategy(stage));
    EXPECT_EQ(sharded.memory().steady, whole.memory().steady);
    EXPECT_EQ(sharded.shard().moments, whole.shard().optimizer_elements * Bytes(8));
    EXPECT_TRUE(sharded.communication().collectives.empty());
  }
}

TEST_P(EveryModelAndWorld, PartsAddUpToThePeak) {
  for (int stage = 0; stage <= 3; ++stage) {
    const Plan each = plan(strategy(stage));
    Bytes sum{};
    for (const auto& [part, name] : EnumNames<MemoryPart>::table) {
      EXPECT_GE(each.memory().peak.holds.part(part), Bytes(0)) << name;
      sum += each.memory().peak.holds.part(part);
    }
    EXPECT_EQ(sum, each.memory().peak.bytes());
    EXPECT_GE(each.memory().peak.bytes(), each.memory().peak_allocated);
    EXPECT_GE(each.memory().required, each.memory().peak.bytes());
  }
}

RankRun run_of(const Model& model, const Training& training, const Strategy& strategy) {
  return {model, training, strategy, {}};
}

TEST_P(EveryModelAndWorld, ThePeakIsTheHighestMoment) {
  for (int stage = 0; stage <= 3; ++stage) {
    const RankRun run = run_of(GetParam().model, {}, strategy(stage));
    const RunResult result = simulate_live(run.inputs());
    Bytes highest{};
    for (const Moment& moment : result.timeline) highest = std::max(highest, moment.live);
    EXPECT_EQ(highest, result.peak.bytes());
  }
}

// The search counts with the condensed tape; what it finds must be what the whole tape says.
TEST_P(EveryModelAndWorld, TheCondensedTapeHasThePeaksOfTheWholeOne) {
  for (int stage = 0; stage <= 3; ++stage)
    for (const std::int64_t micro_steps : {1, 4})
      for (const Checkpointing checkpointing :
           {Checkpointing::none, Checkpointing::selective, Checkpointing::full}) {
        Strategy s = strategy(stage);
        s.gradient_accumulation_steps = micro_steps;
        s.checkpointing = checkpointing;
        const RankRun run = run_of(GetParam().model, {}, s);
        const RunResult condensed = simulate_live(run.inputs());
        const RunResult whole = simulate_live_from_whole_tape(run.inputs());
        EXPECT_EQ(condensed.peak, whole.peak) << "stage " << stage;
        EXPECT_EQ(condensed.phases, whole.phases) << "stage " << stage;
        EXPECT_EQ(condensed.held, whole.held) << "stage " << stage;
      }
}

TEST_P(EveryModelAndWorld, NothingIsLeftBehindByAStep) {
  for (int stage = 0; stage <= 3; ++stage)
    for (const std::int64_t micro_steps : {1, 4})
      for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::full}) {
        Strategy s = strategy(stage);
        s.gradient_accumulation_steps = micro_steps;
        s.checkpointing = checkpointing;
        const RankRun run = run_of(GetParam().model, {}, s);
        const RunResult result = simulate_live_from_whole_tape(run.inputs());
        for (const Term term : {Term::saved_activations, Term::model_inputs, Term::layer_working_set,
                                Term::gradients, Term::head_gradients, Term::logits, Term::loss_temporaries,
                                Term::gradient_copy, Term::bucket_copy})
          EXPECT_EQ(result.left[term], Bytes(0))
              << info(term).name << ", stage " << stage << ", " << micro_steps << " micro-steps";
      }
}

TEST_P(EveryModelAndWorld, WhatIsRequiredLiesBetweenAllocatedAndReserved) {
  for (int stage = 0; stage <= 3; ++stage) {
    const Plan each = plan(strategy(stage));
    EXPECT_GE(each.memory().required, each.memory().required_low);
    EXPECT_LE(each.memory().required, each.memory().required_high + kMiB * 2);
    EXPECT_GE(each.memory().peak_reserved, each.memory().peak_allocated);
  }
}

// Compares requested bytes: the allocator's remainders may be smaller for a larger tensor.
TEST_P(EveryModelAndWorld, LongerSequencesAndLargerBatchesNeedMore) {
  const auto live_peak = [&](const Strategy& s, const Training& training) {
    return run_of(GetParam().model, training, s).live().peak.bytes();
  };
  Training training;
  Strategy s = strategy(GetParam().gpus > 1 ? 3 : 0);
  Bytes before{};
  for (const std::int64_t length : {512, 1024, 4096, 16384}) {
    training.sequence_length = length;
    const Bytes now = live_peak(s, training);
    EXPECT_GE(now, before);
    before = now;
  }
  for (const std::int64_t batch : {2, 3, 8}) {
    s.micro_batch_size = batch;
    const Bytes now = live_peak(s, training);
    EXPECT_GT(now, before);
    before = now;
  }
}

TEST_P(EveryModelAndWorld, CheckpointingKeepsLessPerLayer) {
  const auto saved = [&](Checkpointing checkpointing) {
    Strategy s = strategy(0);
    s.checkpointing = checkpointing;
    return plan(s).memory().saved_by_layer;
  };
  const std::vector<Bytes> none = saved(Checkpointing::none), selective = saved(Checkpointing::selective),
                           full = saved(Checkpointing::full);
  ASSERT_EQ(none.size(), full.size());
  for (std::size_t layer = 1; layer < none.size(); ++layer) {
    EXPECT_LT(selective[layer], none[layer]);
    EXPECT_LT(full[layer], selective[layer]);
  }
}

INSTANTIATE_TEST_SUITE_P(Planner, EveryModelAndWorld, ::testing::ValuesIn(property_cases()),
                         [](const auto& each) { return each.param.name; });

// ---- the search
// --------------------------------------------------------------------------------------------

Question question(std::int64_t gpus, Bytes memory) {
  Question q{.model = property_cases()[0].model,
             .cluster = roomy_cluster(gpus),
             .training = {},
             .space = {},
             .headroom = {},
             .unit = {}};
  q.cluster.memory = q.cluster.usable_memory = memory;
  return q;
}

TEST(Search, RanksWhatFitsBySpeedAndTheRestByNeed) {
  const Answer found = answer(question(4, kGiB * 12));
  ASSERT_TRUE(found.fits());
  for (std::size_t i = 1; i < found.plans.size(); ++i) {
    const Plan &a = found.plans[i - 1], &b = found.plans[i];
    EXPECT_TRUE(a.fits || !b.fits) << "a plan that fits stands behind one that does not";
    if (a.fits && b.fits) {
      EXPECT_GE(a.time.tokens_per_second, b.time.tokens_per_second);
    }
    if (!a.fits && !b.fits) {
      EXPECT_LE(a.memory().required, b.memory().required);
    }
  }
}

TEST(Search, EveryPlanHasAReason) {
  const Question q = question(4, kGiB * 12);
  for (const Plan& plan : answer(q).plans) {
    ASSERT_FALSE(plan.why.empty()) << plan.id();
    EXPECT_EQ(plan.why.front().starts_with("short by"), !plan.fits_device) << plan.id();
  }
}

TEST(Search, APinnedPlanEqualsTheOneThatTheSearchReports) {
  const Question q = question(4, kGiB * 12);
  for (const Plan& plan : answer(q).plans) {
    const Plan again = make_plan(q.model, q.cluster, q.training, plan.strategy, q.headroom);
    EXPECT_EQ(again.memory().required, plan.memory().required);
    EXPECT_EQ(again.memory().peak.holds, plan.memory().peak.holds);
    EXPECT_EQ(again.communication().collectives, plan.communication().collectives);
  }
}

TEST(Search, FewestGpusIsTheFirstWorldThatFits) {
  const Question q = question(2, kGiB * 10);
  Strategy s{.zero_stage = 3, .layout = {.shard = 2}, .zero = zero_options(Buckets::hf_auto, 2048)};
  const Plan plan = make_plan(q.model, q.cluster, q.training, s);
  ASSERT_FALSE(plan.fits_device);
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const auto gpus = fewest_gpus(plan, q, context, 64);
  ASSERT_TRUE(gpus.has_value());
  s.layout.shard = *gpus;
  EXPECT_TRUE(make_plan(q.model, q.cluster, q.training, s).fits_device);
  s.layout.shard = *gpus - 1;
  EXPECT_FALSE(make_plan(q.model, q.cluster, q.training, s).fits_device);
}

// Nodes of three do not divide 1024: the search for a cluster that fits once went on for ever.
TEST(Search, FewestGpusEndsForNodesOfEverySize) {
  for (const std::int64_t node : {1, 3, 5, 6, 7, 12, 1000, 2000}) {
    Question q = question(2 * node, kGiB * 2);
    q.cluster.nodes = 2, q.cluster.gpus_per_node = node;
    const Strategy s{.zero_stage = 2, .layout = {.shard = 2 * node}};
    const Work work(nullptr, 200);
    PlanContext context(q.model, q.cluster, q.training, q.headroom);
    const Plan plan = context.outline(s);
    ASSERT_FALSE(plan.fits_device);
    EXPECT_EQ(fewest_gpus(plan, q, context, 1024), std::nullopt) << node;
  }
}

// `required` is bisected to half a percent.
TEST(Search, SmallestCardIsWithinAPercent) {
  Question q = question(4, kGiB * 80);
  const Bytes kept_by_driver = kMiB * 600;
  q.cluster.usable_memory = q.cluster.memory - kept_by_driver;
  const Strategy s{.zero_stage = 2, .layout = {.shard = 4}};
  const Bytes card = smallest_gpu(make_plan(q.model, q.cluster, q.training, s), q);
  q.cluster.memory = card, q.cluster.usable_memory = card - kept_by_driver;
  EXPECT_TRUE(make_plan(q.model, q.cluster, q.training, s).fits_device);
  const Bytes smaller = card - Bytes(card.value / 100);
  q.cluster.memory = smaller, q.cluster.usable_memory = smaller - kept_by_driver;
  EXPECT_FALSE(make_plan(q.model, q.cluster, q.training, s).fits_device);
}

TEST(Search, LargestMicroBatchIsTheLast) {
  const Question q = question(4, kGiB * 24);
  const Strategy s{.zero_stage = 3, .layout = {.shard = 4}};
  PlanContext context(q.model, q.cluster, q.training, q.headroom);
  const auto most = largest_micro_batch(q, context, s);
  ASSERT_TRUE(most.has_value());
  Strategy larger = s;
  larger.micro_batch_size = *most;
  EXPECT_TRUE(make_plan(q.model, q.cluster, q.training, larger).fits);
  larger.micro_batch_size = *most + 1;
  EXPECT_FALSE(make_plan(q.model, q.cluster, q.training, larger).fits);
}

TEST(Search, LargestMicroBatchOfAGlobalBatchIsTheLargestDivisorThatFits) {
  Question q = question(4, kGiB * 24);
  const Strategy s{.zero_stage = 3, .layout = {.shard = 4}};
  for (const std::int64_t global : {96'000, 4 * 7, 4, 99'999'956}) {  // the last: four times a prime
    q.space.global_batch_size = global;
    const Work work(nullptr, 400);
    PlanContext context(q.model, q.cluster, q.training, q.headroom);
    std::int64_t largest = 0;
    for (const std::int64_t size : divisors(global / 4)) {
      Strategy sized = s;
      sized.micro_batch_size = size, sized.gradient_accumulation_steps = global / 4 / size;
      if (size > 1000 || !context.outline(sized).fits) continue;
      largest = size;
    }
    EXPECT_EQ(largest_micro_batch(q, context, s).value_or(0), largest) << global;
  }
}

TEST(Search, AGlobalBatchSetsTheAccumulation) {
  Question q = question(4, kGiB * 80);
  q.space.global_batch_size = 64;
  q.space.micro_batch_size = 2;
  for (const Plan& plan : answer(q).plans) EXPECT_EQ(plan.strategy.global_batch_size(), 64) << plan.id();
}

TEST(Search, ContradictingBatchSizesAreBadInput) {
  Question q = question(4, kGiB * 80);
  q.space.global_batch_size = 65;
  q.space.gradient_accumulation_steps = 8;
  q.space.micro_batch_size = 2;
  EXPECT_THROW(static_cast<void>(answer(q)), InputError);
}

/// Returns the sentence with which a question is refused; empty where it is planned.
std::string refusal_of(const Question& q) {
  try {
    static_cast<void>(answer(q));
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Search, NothingLegalNamesTheReason) {
  Question q = question(5, kGiB * 80);
  q.space.tensor_parallel = {4};
  EXPECT_THAT(refusal_of(q), ::testing::HasSubstr("5 GPUs are not a multiple of tensor parallel 4"));
}

// Each degree divides the GPUs; the ranks of both together are eight times as many.
TEST(Search, DegreesTogetherDivideTheGpus) {
  for (const Framework framework : {Framework::megatron, Framework::torchtitan, Framework::fsdp}) {
    Question q = question(8, kGiB * 80);
    q.training = with_framework(q.training, framework);
    q.space.tensor_parallel = {8};
    q.space.context_parallel = {8};
    EXPECT_THAT(refusal_of(q), ::testing::HasSubstr("8 GPUs are not a multiple of the 64 ranks"));
  }
}

TEST(Search, OffloadOfParametersBelowStage3SaysWhy) {
  Question q = question(4, kGiB * 80);
  q.space.zero_stages = {2, 3};
  q.space.offloads = {{OffloadDevice::cpu, OffloadDevice::cpu}};
  const Answer found = answer(q);
  ASSERT_EQ(found.plans.size(), 1U);
  ASSERT_EQ(found.rejected.size(), 1U);
  EXPECT_NE(found.rejected[0].reasons[0].find("offload_param needs ZeRO-3"), std::string::npos);
}

TEST(Search, WhereNothingFitsItSaysWhatWould) {
  Question q = question(4, kGiB * 12);
  q.space.zero_stages = {0};
  q.space.tensor_parallel = {1};
  const Answer found = answer(q);
  EXPECT_FALSE(found.fits());
  ASSERT_TRUE(found.alternative.has_value());
  EXPECT_TRUE(found.alternative->fits);
}

// Code asks a framework's spec, never its name, so that another framework is a folder of its own.
TEST(Frameworks, NoOtherCodeComparesThem) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(ZPLAN_TEST_DATA).parent_path();
  const std::regex compares("([=!]=|case) *(zplan::)?Framework::");
  int files = 0;
  std::vector<std::string> found;
  for (const char* folder : {"models", "hardware_profiles", "planner", "cli", "gui", "harness"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const fs::path& file = entry.path();
      const bool is_code = file.extension() == ".cpp" || file.extension() == ".h";
      if (!is_code || file.string().find("/planner/frameworks/") != std::string::npos) continue;
      ++files;
      std::ifstream in(file);
      for (std::string line; std::getline(in, line);)
        if (std::regex_search(line, compares)) found.push_back(file.string() + ": " + line);
    }
  EXPECT_GT(files, 100);
  EXPECT_THAT(found, ::testing::IsEmpty());
}

}  // namespace
}  // namespace zplan::testing
