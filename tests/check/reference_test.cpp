// The project's own copies of the measurements: everything is read, and nothing is passed over in silence.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "hardware_profiles/cluster.h"
#include "models/config.h"
#include "planner/check/predict.h"
#include "planner/frameworks/deepspeed/legality.h"
#include "planner/plan/legality.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

std::vector<Case> reference(const std::string& path) {
  return cases_of(read_file(std::string(ZPLAN_TEST_DATA) + "/reference/" + path), path);
}

/// Returns the errors of a file's cases, smallest first. Every case is judged, with an error of at most
/// `most`. `only`: of that statistic.
std::vector<double> errors_of(const std::string& path, std::optional<Statistic> only, double most) {
  std::vector<double> errors;
  for (const Record& record : judge(reference(path))) {
    if (only && record.statistic != *only) continue;
    if (!record.judged()) {
      ADD_FAILURE() << record.id << ": " << record.skip.text();
      continue;
    }
    errors.push_back(std::abs(*record.error));
    EXPECT_LE(errors.back(), most) << record.id;
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

struct Expected {
  std::string path;
  Kind kind;
  std::size_t cases;
};

TEST(References, AreReadWhole) {
  const std::vector<Expected> all{
      {"steps/steps.json", Kind::step, 307},
      {"steps/one_card.json", Kind::step, 60},
      {"steps/communication_types.json", Kind::step, 22},
      {"architectures/steps.json", Kind::step, 123},
      {"architectures/described.json", Kind::step, 218},
      {"images/steps.json", Kind::step, 169},
      {"images/qlora.json", Kind::step, 8},
      {"qlora/steps.json", Kind::step, 176},
      {"qlora/dropout.json", Kind::step, 20},
      {"methods/steps.json", Kind::step, 42},
      {"methods/sharded.json", Kind::step, 7},
      {"methods/gpt2.json", Kind::step, 4},
      {"methods/more_models.json", Kind::step, 134},
      {"packed/steps.json", Kind::step, 20},
      {"adapters/steps.json", Kind::step, 15},
      {"trainers/steps.json", Kind::step, 56},
      {"answers/steps.json", Kind::step, 16},
      {"compiled/steps.json", Kind::step, 85},
      {"unsloth/steps.json", Kind::step, 46},
      {"rollouts/steps.json", Kind::step, 35},
      {"rollouts/whole_logits.json", Kind::step, 32},
      {"distillation/steps.json", Kind::step, 28},
      {"fsdp1/steps.json", Kind::step, 10},
      {"megatron/steps.json", Kind::step, 198},
      {"megatron/schedules.json", Kind::schedule, 198},
      {"megatron/virtual_steps.json", Kind::step, 35},
      {"megatron/virtual_schedules.json", Kind::schedule, 35},
      {"megatron/mixtures_steps.json", Kind::step, 61},
      {"megatron/mixtures_schedules.json", Kind::schedule, 61},
      {"megatron/published.json", Kind::step, 15},
      {"megatron_adapters/steps.json", Kind::step, 37},
      {"megatron_adapters/schedules.json", Kind::schedule, 37},
      {"torchtitan/steps.json", Kind::step, 242},
      {"torchtitan/schedules.json", Kind::schedule, 242},
      {"litgpt/memory.json", Kind::measurement, 15},
      {"capacity/capacity.json", Kind::step, 50},
      {"host_memory/host_memory.json", Kind::step, 12},
      {"schedules/schedules.json", Kind::schedule, 76},
      {"schedules/one_card.json", Kind::schedule, 15},
      {"deepspeed_runs/runs.json", Kind::schedule, 356},
      {"sharding_options/runs.json", Kind::schedule, 44},
      {"sharding_options/fsdp.json", Kind::schedule, 9},
      {"sharding_options/schedules.json", Kind::schedule, 28},
      {"sharding_options/steps.json", Kind::step, 28},
      {"fsdp_tp/steps.json", Kind::step, 57},
      {"fsdp_tp/schedules.json", Kind::schedule, 57},
      {"sequence_parallel/steps.json", Kind::step, 119},
      {"sequence_parallel/schedules.json", Kind::schedule, 62},
      {"sequence_parallel/adapters_steps.json", Kind::step, 7},
      {"sequence_parallel/adapters_schedules.json", Kind::schedule, 7},
      {"expert_parallel/steps.json", Kind::step, 2 * 101},
      {"expert_parallel/schedules.json", Kind::schedule, 90},
      {"expert_parallel/given_optimizer_steps.json", Kind::step, 2 * 6},
      {"expert_parallel/given_optimizer_schedules.json", Kind::schedule, 6},
      {"activations/activations.json", Kind::activation, 652},
      {"published/memory.json", Kind::measurement, 206},
      {"published/fresh_memory.json", Kind::measurement, 88},
      {"published/speed.json", Kind::speed, 179},
      {"published/fresh_speed.json", Kind::speed, 95},
      {"published/collectives.json", Kind::collectives, 36 + 3},
  };
  for (const Expected& each : all) {
    const std::vector<Case> cases = reference(each.path);
    EXPECT_EQ(cases.size(), each.cases) << each.path;
    for (const Case& one : cases) {
      EXPECT_EQ(one.kind, each.kind) << each.path;
      EXPECT_EQ(one.file, each.path);
      EXPECT_FALSE(one.id.empty());
      EXPECT_FALSE(statistics_of(one.measured).empty()) << one.id;
    }
  }
}

/// A figure that holds more than steps is not judged; a network that the source measured is priced as such.
TEST(References, SpeedsTakeWhatTheirSourceSays) {
  for (const Case& each : reference("published/fresh_speed.json")) {
    if (each.id == "fs044") {
      EXPECT_EQ(each.skip.features, std::vector<std::string>{"a figure in doubt"});
    }
    if (each.id != "fs054") continue;
    EXPECT_FALSE(each.skip.any());
    ASSERT_TRUE(each.setup && each.setup->cluster.between);
    EXPECT_DOUBLE_EQ(each.setup->cluster.between->all_gather.value, 6.8e9);
  }
}

TEST(References, OtherFilesAreNone) {
  const std::string folder = std::string(ZPLAN_TEST_DATA) + "/reference/";
  for (const char* path :
       {"parameter_counts/parameter_counts.json", "ds_config/defaults.json", "quantised/stored.json"})
    EXPECT_FALSE(recognised(read_file(folder + path), path).format) << path;
}

// The planner predicts the bytes that every rank of 200 real runs held, to the byte.
TEST(References, HeldBytesAreExact) {
  std::size_t exact = 0;
  for (const char* path : {"deepspeed_runs/runs.json", "sharding_options/runs.json"})
    for (const Case& each : reference(path))
      if (std::holds_alternative<MeasuredHeld>(each.measured)) exact += judge(each).front().exact ? 1U : 0U;
  EXPECT_EQ(exact, 178U + 22U);
}

bool is_host(Statistic statistic) {
  return statistic == Statistic::host_pinned || statistic == Statistic::host_pageable;
}

// Offload beside ZeRO++ and hybrid sharding: what is not as measured, by name.
TEST(References, HostMemoryOfShardingOptions) {
  std::map<std::pair<std::string, Statistic>, double> off;
  std::size_t judged = 0;
  for (const Record& record : judge(reference("sharding_options/steps.json")))
    if (is_host(record.statistic)) {
      ++judged;
      if (!record.exact) off[{record.id, record.statistic}] = std::round(*record.error * 100) / 100;
    }
  const std::string hybrid = "Qwen2.5-0.5B|fsdp|n4|hsdp_cpu", quantised = "Qwen2.5-0.5B|deepspeed|n4|qw_off";
  EXPECT_EQ(judged, 6U);
  EXPECT_EQ(off, (std::map<std::pair<std::string, Statistic>, double>{
                     {{hybrid, Statistic::host_pinned}, -0.33},
                     {{hybrid, Statistic::host_pageable}, 0.03},
                     {{quantised, Statistic::host_pinned}, 0.46}}));
}

// Host memory of real loads and saves on CPU ranks, where the device is the host, too: what is further off
// than 5 %, by name.
TEST(References, HostMemoryBesideTheSteps) {
  std::set<std::string> off;
  for (const Record& record : judge(reference("host_memory/host_memory.json"))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    if (std::abs(*record.error) > 0.05) off.insert(record.id + " " + record.part);
  }
  EXPECT_EQ(off, (std::set<std::string>{"fsdp-full-small-4 save_model"}));
}

// Steps with ZeRO++ and of hybrid sharding: peaks within the scalars that no plan counts, what the allocator
// reserved to the byte.
TEST(References, QuantisedAndReplicatedStepsAreAsMeasured) {
  for (const Record& record : judge(reference("sharding_options/steps.json"))) {
    if (is_host(record.statistic)) continue;
    const bool reserved = record.statistic == Statistic::reserved;
    EXPECT_LE(std::abs(*record.error), reserved ? 0 : 1e-5) << record.id;
  }
}

// One rank flattens its gradients for a reduction among itself, as many do.
TEST(References, OneRankReservesWhatItReducesInto) {
  std::size_t seen = 0;
  for (const Record& record : judge(reference("steps/one_card.json"))) {
    if (record.statistic != Statistic::reserved || record.id.find("|z0|n1|") == std::string::npos) continue;
    ++seen;
    EXPECT_LE(std::abs(*record.error), 0.001) << record.id;
  }
  EXPECT_EQ(seen, 5U);
}

// Steps of architectures that were recorded: every one is judged on its peak of live memory.
TEST(References, RecordedModelsAreAsMeasured) {
  const std::vector<double> errors = errors_of("architectures/steps.json", Statistic::allocated, 0.03);
  EXPECT_EQ(errors.size(), 123U);
  EXPECT_LE(median_of(errors), 0.001);
}

// Steps of architectures with a descriptor, none of which it was made from: every one is judged.
TEST(References, DescribedModelsAreAsMeasured) {
  const std::vector<double> errors = errors_of("architectures/described.json", Statistic::allocated, 0.002);
  EXPECT_EQ(errors.size(), 218U);
  EXPECT_LE(median_of(errors), 1e-5);
}

// Published text models at their real widths, of which no program and no recording was made: four by their
// descriptors, four hybrids, Devstral 2 and Hunyuan by recorded steps whose sizes are expressions over the
// config.
TEST(References, PublishedTextModelsAreAsMeasured) {
  const std::vector<double> errors =
      errors_of("architectures/published_text.json", Statistic::allocated, 0.03);
  EXPECT_EQ(errors.size(), 40U);
  EXPECT_LE(median_of(errors), 1e-4);
}

// Published image-text models at their real widths: four with images, five on text alone.
TEST(References, PublishedImageTextModelsAreAsMeasured) {
  const std::vector<double> errors = errors_of("images/published.json", Statistic::allocated, 0.006);
  EXPECT_EQ(errors.size(), 40U);
  EXPECT_LE(median_of(errors), 5e-4);
}

// NF4 in language model, tower and projector, as transformers packs them; adapters on all linear layers.
TEST(References, PackedStepsWithImagesAreAsMeasured) {
  const std::vector<double> errors = errors_of("images/qlora.json", Statistic::allocated, 0.005);
  EXPECT_EQ(errors.size(), 8U);
  EXPECT_LE(median_of(errors), 0.001);
}

// Steps with images as input: towers, projectors and the scatter into the embeddings, trained, frozen and
// with adapters; every one is judged on its peak of live memory.
TEST(References, StepsWithImagesAreAsMeasured) {
  const std::vector<double> errors = errors_of("images/steps.json", Statistic::allocated, 0.005);
  EXPECT_EQ(errors.size(), 169U);
  EXPECT_LE(median_of(errors), 0.001);
}

// Gradients that travel in another type than they are computed in, and adapters that drop out: allocated
// bytes at the peak.
TEST(References, CastsAndDropoutAreAsMeasured) {
  for (const char* path : {"steps/communication_types.json", "qlora/dropout.json"})
    for (const Record& record : judge(reference(path)))
      if (record.statistic == Statistic::allocated) {
        EXPECT_LE(std::abs(*record.error), 0.002) << record.id;
      }
}

// Requested bytes within 0.1 %, and what PyTorch's allocator makes of them within 1 %, in every run.
TEST(References, ActivationsAreAsMeasured) {
  for (const Record& record : judge(reference("activations/activations.json"))) {
    if (!record.judged()) continue;
    const double tolerance = record.statistic == Statistic::requested ? 0.001 : 0.01;
    EXPECT_LE(std::abs(*record.error), tolerance) << record.id << ": " << record.part;
  }
}

/// Every one of `count` steps is judged on its peak of live memory and on what the allocator reserved.
void expect_measured_steps(const char* file, std::size_t count) {
  std::vector<double> allocated;
  std::size_t reserved = 0;
  for (const Record& record : judge(reference(file))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    const double error = std::abs(*record.error);
    if (record.statistic == Statistic::reserved) {
      ++reserved;
      EXPECT_LE(error, 0.10) << record.id;
      continue;
    }
    allocated.push_back(error);
    EXPECT_LE(error, 0.03) << record.id;
  }
  ASSERT_EQ(allocated.size(), count);
  EXPECT_EQ(reserved, count);
  std::sort(allocated.begin(), allocated.end());
  EXPECT_LE(median_of(allocated), 0.005);
}

// Trained copies and DoRA beside adapters, QLoRA over sharded weights, DPO with either reference.
TEST(References, MethodsAreAsMeasured) { expect_measured_steps("methods/steps.json", 42); }

// A reference without adapters at ZeRO-3, whose forward follows the policy's trace at first; QLoRA under
// FSDP2.
TEST(References, ShardedMethodsAreAsMeasured) {
  const std::vector<double> errors = errors_of("methods/sharded.json", Statistic::allocated, 0.005);
  EXPECT_EQ(errors.size(), 7U);
}

// Adapters of layers whose weights are [in, out].
TEST(References, AdaptersOfConv1dAreAsMeasured) { expect_measured_steps("methods/gpt2.json", 4); }

// DoRA and DPO of many architectures.
TEST(References, MethodsOfMoreModelsAreAsMeasured) { expect_measured_steps("methods/more_models.json", 134); }

// Several adapters in memory, and DPO that compares with a frozen copy of them.
TEST(References, SeveralAdapters) { expect_measured_steps("adapters/steps.json", 15); }

// Adapters over weights that HQQ, AWQ or torchao packed.
TEST(References, PackedByOtherLibraries) { expect_measured_steps("packed/steps.json", 20); }

// FSDP's first generation around adapters, its units inside reentrant checkpoints or around them: live memory
// is FSDP2's but for the inputs that are held. (What the allocator reserves is not: parameters are flat.)
TEST(References, FirstGenerationHoldsInputs) {
  std::map<std::string, double> predicted;
  for (const Record& record : judge(reference("fsdp1/steps.json"))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    if (record.statistic != Statistic::allocated) continue;
    // Plans of 70B are 4.4 and 5.3 % too high; the reason is not known.
    EXPECT_LE(std::abs(*record.error), record.id.find("70B") != std::string::npos ? 0.055 : 0.04)
        << record.id;
    predicted[record.id] = *record.predicted;
  }
  ASSERT_EQ(predicted.size(), 10U);
  const std::string run = "fsdp1|Llama-2-13B|n4|b4s2048|";
  // 40 layers of 4 · 2048 · 5120 · 2 B: 3.1 GiB beside the peak, which the loss has otherwise.
  EXPECT_GT(predicted[run + "around"] - predicted[run + "inside"], 2.5e9);
}

// litgpt's own modules in its own loop: what logits and loss hold of the micro-step before.
TEST(References, LoopsHoldTheirOutputs) {
  const std::vector<double> errors = errors_of("litgpt/memory.json", std::nullopt, 0.03);
  ASSERT_EQ(errors.size(), 15U);
  EXPECT_LE(median_of(errors), 0.005);
}

// Number of the older published peaks that are judged, and the errors of those whose source says what was
// counted.
TEST(References, PublishedPeaksAreJudged) {
  std::size_t judged = 0;
  std::vector<double> named;
  for (const char* path : {"published/memory.json", "published/fresh_memory.json"}) {
    const bool older = std::string_view(path) == "published/memory.json";
    for (const Record& record : judge(reference(path))) {
      if (!record.judged()) continue;
      judged += older ? 1 : 0;
      const bool counted = record.statistic != Statistic::unknown && record.statistic != Statistic::required;
      if (counted && record.traits.grade != "C") named.push_back(std::abs(*record.error));
    }
  }
  EXPECT_GE(judged, 170U);
  ASSERT_GE(named.size(), 127U);
  std::sort(named.begin(), named.end());
  EXPECT_LE(median_of(named), 0.02);
  EXPECT_LE(named[named.size() * 9 / 10], 0.15);
}

// Liger's kernels, TRL's fused head with every kind of reference, KTO, reward models, shifted logits.
TEST(References, TrainersStepsAreAsMeasured) {
  std::vector<double> allocated;
  std::size_t reserved = 0;  // within 10 %
  for (const Record& record : judge(reference("trainers/steps.json"))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    const double error = std::abs(*record.error);
    if (record.statistic == Statistic::reserved) {
      EXPECT_LE(error, 0.12) << record.id;
      reserved += error <= 0.10 ? 1 : 0;
      continue;
    }
    allocated.push_back(error);
    EXPECT_LE(error, 0.005) << record.id;
  }
  ASSERT_EQ(allocated.size(), 56U);
  EXPECT_GE(reserved, 54U);
  std::sort(allocated.begin(), allocated.end());
  EXPECT_LE(median_of(allocated), 0.0005);
}

// LLaMA-Factory's DPO, ORPO, SimPO and KTO, torchtune's DPO: log-probabilities of all answers at once.
TEST(References, LossesOfWholeAnswersAreAsMeasured) {
  std::size_t judged = 0;
  for (const Record& record : judge(reference("answers/steps.json"))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    if (record.statistic == Statistic::reserved) continue;
    ++judged;
    EXPECT_LE(std::abs(*record.error), 0.005) << record.id;
  }
  EXPECT_EQ(judged, 16U);
}

// torch.compile of layers and whole models, Liger's kernels by their switches, cut cross-entropy, torchao's
// float8 layers, TRL's and torchtune's hooks that move activations to the host. Not planned: a budget of
// compiled graphs, Liger's cross-entropy of whole logits, hooks without a stream or pinned memory.
TEST(References, CompiledStepsAreAsMeasured) {
  std::vector<double> allocated;
  std::size_t skipped = 0, pinned = 0;
  for (const Record& record : judge(reference("compiled/steps.json"))) {
    if (record.judged() && record.statistic == Statistic::host_pinned) pinned += record.exact ? 1 : 0;
    if (record.statistic != Statistic::allocated) continue;
    if (!record.judged()) {
      ++skipped;
      continue;
    }
    allocated.push_back(std::abs(*record.error));
    EXPECT_LE(allocated.back(), 0.013) << record.id;
  }
  EXPECT_EQ(skipped, 4U);
  std::sort(allocated.begin(), allocated.end());
  ASSERT_EQ(allocated.size(), 81U);
  EXPECT_LE(median_of(allocated), 0.0001);
  EXPECT_GE(pinned, 69U);
}

// Unsloth: LoRA and QLoRA with its three kinds of checkpointing, padded batches, full training: device and
// pinned bytes. Not planned: Gemma 3, its tiled feed-forward.
TEST(References, UnslothsStepsAreAsMeasured) {
  std::vector<double> allocated;
  std::size_t pinned = 0;
  for (const Record& record : judge(reference("unsloth/steps.json"))) {
    if (!record.judged()) continue;
    if (record.statistic == Statistic::host_pinned) pinned += record.exact ? 1 : 0;
    if (record.statistic != Statistic::allocated) continue;
    allocated.push_back(std::abs(*record.error));
    EXPECT_LE(allocated.back(), 0.01) << record.id;
  }
  std::sort(allocated.begin(), allocated.end());
  ASSERT_EQ(allocated.size(), 44U);
  EXPECT_GE(pinned, 41U);
  EXPECT_LE(median_of(allocated), 0.0002);
}

// GRPO's scoring and training over given completions: with and without a reference, adapters, accumulation.
// DeepSpeed's trace behind a scoring pass is known for one micro-step alone: with four, 0.4 GB are planned
// whole that are not.
TEST(References, RolloutsAreAsMeasured) {
  std::vector<double> allocated;
  std::size_t reserved = 0;  // within 10 %
  for (const Record& record : judge(reference("rollouts/steps.json"))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    const double error = std::abs(*record.error);
    if (record.statistic == Statistic::reserved) {
      EXPECT_LE(error, 0.11) << record.id;
      reserved += error <= 0.10 ? 1 : 0;
      continue;
    }
    allocated.push_back(error);
    EXPECT_LE(error, record.id.ends_with("z3|n4|b2s1024c512|ckpt=True|gas=4") ? 0.04 : 0.002) << record.id;
  }
  ASSERT_EQ(allocated.size(), 35U);
  EXPECT_GE(reserved, 34U);
  std::sort(allocated.begin(), allocated.end());
  EXPECT_LE(median_of(allocated), 0.0005);
}

// GRPO over whole logits by the functions of TRL 0.18, 0.29 and 1.8 and of ms-swift 4.6, under accelerate's
// wrappers and DeepSpeed.
TEST(References, WholeLogitsAreAsMeasured) {
  std::vector<double> allocated;
  for (const Record& record : judge(reference("rollouts/whole_logits.json"))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    if (record.statistic != Statistic::allocated) continue;
    allocated.push_back(std::abs(*record.error));
    // DeepSpeed's trace behind a scoring pass is known for one micro-step alone.
    const bool known = record.id.find("z3|n8|b1s4096c3072|ckpt=True|gas=2") == std::string::npos;
    EXPECT_LE(allocated.back(), known ? 0.001 : 0.02) << record.id;
  }
  ASSERT_EQ(allocated.size(), 32U);
  std::sort(allocated.begin(), allocated.end());
  EXPECT_LE(median_of(allocated), 0.0001);
}

// Knowledge distillation by the losses of TRL's and ms-swift's GKD trainers: teachers of another size, whole
// or sharded as the framework does.
TEST(References, DistillationIsAsMeasured) {
  std::vector<double> allocated;
  for (const Record& record : judge(reference("distillation/steps.json"))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    if (record.statistic != Statistic::allocated) continue;
    allocated.push_back(std::abs(*record.error));
    EXPECT_LE(allocated.back(), 0.002) << record.id;
  }
  ASSERT_EQ(allocated.size(), 28U);
  std::sort(allocated.begin(), allocated.end());
  EXPECT_LE(median_of(allocated), 0.0001);
}

// PPO's training by TRL's own trainer: policy and value model in one step, of other sizes too, adapters,
// checkpoints, accumulation.
TEST(References, UpdatesOfPpoAreAsMeasured) {
  std::vector<double> allocated;
  for (const Record& record : judge(reference("ppo/steps.json"))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    const double error = std::abs(*record.error);
    EXPECT_LE(error, record.statistic == Statistic::reserved ? 0.03 : 0.004) << record.id;
    if (record.statistic == Statistic::allocated) allocated.push_back(error);
  }
  ASSERT_EQ(allocated.size(), 27U);
  std::sort(allocated.begin(), allocated.end());
  EXPECT_LE(median_of(allocated), 0.001);
}

// Its generation and scoring, by the recorded peaks of these phases: where completions were given no keys and
// values are in them, where transformers generated they are. As the recorded scoring begins the scores of the
// generation before still lie beside the new ones.
TEST(References, PhasesOfPpoAreAsMeasured) {
  const std::string path = "ppo/steps.json";
  const nlohmann::json rows =
      nlohmann::json::parse(read_file(std::string(ZPLAN_TEST_DATA) + "/reference/" + path));
  const std::vector<Case> cases = reference(path);
  ASSERT_EQ(cases.size(), rows.size());
  std::vector<double> errors;
  std::size_t generated = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const nlohmann::json& phases = rows[i].at("measured").at("3").at("phases");
    const bool generates = rows[i].at("options").value("generates", false);
    generated += generates ? 1 : 0;
    const auto judge_phase = [&](const char* phase, Bytes allocated) {
      const auto measured = phases.at(phase).at("peak_allocated").get<double>();
      errors.push_back(std::abs(number_of_bytes(allocated) / measured - 1));
      EXPECT_LE(errors.back(), 0.012) << cases[i].id << " " << phase << ": " << allocated.value;
    };
    const auto& setup = *cases[i].setup;
    const MomentPrediction scoring = predict_moment(setup, RunMoment::scoring);
    const Bytes both =
        scoring.held + generation_scores(setup.training, setup.strategy, setup.model.shape.vocabulary_size);
    judge_phase("generate", predict_moment(setup, RunMoment::generation).allocated);
    judge_phase("score", std::max(scoring.allocated, both));
  }
  EXPECT_EQ(generated, 10U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(median_of(errors), 0.002);
}

// Ulysses, ALST's tiles and checkpoints on the host, rings under FSDP2: every step is judged, the median
// within a thousandth, none off by more than 2 %; with sequence parallelism alone all within 0.01 %.
TEST(References, LongContextStepsAreAsMeasured) {
  std::vector<double> errors;
  for (const Record& record : judge(reference("sequence_parallel/steps.json"))) {
    if (record.statistic != Statistic::allocated) continue;
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    errors.push_back(std::abs(*record.error));
    EXPECT_LE(errors.back(), 0.02) << record.id;
    const bool plain = record.id.find("tiled") == std::string::npos &&
                       record.id.find("act_offload") == std::string::npos &&
                       record.id.find("fsdp2cp") == std::string::npos;
    if (plain) {
      EXPECT_LE(errors.back(), 1e-4) << record.id;
    }
  }
  ASSERT_EQ(errors.size(), 119U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.001);
}

// Every collective of them by kind, and their order.
TEST(References, LongContextSchedulesAreAsRecorded) {
  std::set<std::string> off;
  std::size_t ordered = 0, in_order = 0;
  for (const Case& each : reference("sequence_parallel/schedules.json")) {
    if (!judge(each).front().exact) off.insert(each.id);
    const std::vector<CallTally>& sequence = std::get<MeasuredSchedule>(each.measured).sequence;
    if (sequence.empty()) continue;
    ++ordered, in_order += predict_calls(*each.setup) == sequence ? 1U : 0U;
  }
  EXPECT_EQ(off, std::set<std::string>{});
  EXPECT_EQ(ordered, 37U);
  EXPECT_GE(in_order, 33U);
}

// Adapters in fp32 beside bf16 weights, and weights that are all in bf16: peaks, and every collective.
TEST(References, TypesOfOneUnitTravelAsRecorded) {
  EXPECT_EQ(errors_of("sequence_parallel/adapters_steps.json", Statistic::allocated, 0.001).size(), 7U);
  for (const Case& each : reference("sequence_parallel/adapters_schedules.json"))
    EXPECT_TRUE(judge(each).front().exact) << each.id;
}

// FSDP2 with tensor parallelism, replicas too: every step is judged, the median within a thousandth, none off
// by more than 2 %.
TEST(References, DividedLayersUnderFsdpAreAsMeasured) {
  std::vector<double> errors;
  for (const Record& record : judge(reference("fsdp_tp/steps.json"))) {
    if (record.statistic != Statistic::allocated) continue;
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    errors.push_back(std::abs(*record.error));
    EXPECT_LE(errors.back(), 0.02) << record.id << ": " << *record.error;
  }
  ASSERT_EQ(errors.size(), 57U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.001);
}

// Every collective of them by kind, and their order.
TEST(References, SchedulesOfDividedLayersUnderFsdpAreAsRecorded) {
  std::set<std::string> off, unordered;
  for (const Case& each : reference("fsdp_tp/schedules.json")) {
    if (!judge(each).front().exact) off.insert(each.id);
    if (predict_calls(*each.setup) != std::get<MeasuredSchedule>(each.measured).sequence)
      unordered.insert(each.id);
  }
  EXPECT_EQ(off, std::set<std::string>{});
  EXPECT_EQ(unordered, std::set<std::string>{});
}

// AutoEP: every step is judged, the median within 0.2 %, none off by more than 3 %; states to the byte.
TEST(References, ExpertParallelStepsAreAsMeasured) {
  std::vector<double> errors;
  std::size_t held = 0, exact = 0;
  for (const Record& record : judge(reference("expert_parallel/steps.json"))) {
    if (record.statistic != Statistic::allocated && record.statistic != Statistic::held) continue;
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    if (record.statistic == Statistic::held) {
      // Two runs keep torch's AdamW, with a step counter per parameter; small adapters that ZeRO-3 keeps
      // whole are counted in 16 bits.
      exact += record.exact ? 1 : 0;
      EXPECT_LE(std::abs(*record.error), record.exact ? 0.0 : 0.002) << record.id << ": " << *record.error;
      ++held;
      continue;
    }
    errors.push_back(std::abs(*record.error));
    EXPECT_LE(errors.back(), 0.03) << record.id;
  }
  EXPECT_EQ(held, 101U);
  EXPECT_EQ(exact, 98U);
  ASSERT_EQ(errors.size(), 101U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.002);
}

// Every collective of them by kind; of real runs, whose tokens were routed by their values, all but the rows.
TEST(References, ExpertParallelSchedulesAreAsRecorded) {
  for (const Case& each : reference("expert_parallel/schedules.json"))
    EXPECT_TRUE(judge(each).front().exact) << each.id;
}

// The script's own optimizer beside experts has one group of parameters.
TEST(References, OptimizersOfScriptsBesideExpertsAreAsRecorded) {
  EXPECT_EQ(errors_of("expert_parallel/given_optimizer_steps.json", Statistic::allocated, 0.001).size(), 6U);
  for (const Case& each : reference("expert_parallel/given_optimizer_schedules.json"))
    EXPECT_TRUE(judge(each).front().exact) << each.id;
}

/// Expects `steps` recorded steps of Megatron-Core whose held bytes are within `held`, whose peaks are within
/// 0.1 % and whose peaks' median is within `median`.
void expect_megatron_steps(const std::string& path, std::size_t steps, double held, double median) {
  ASSERT_EQ(errors_of(path, Statistic::held, held).size(), steps);
  const std::vector<double> peaks = errors_of(path, Statistic::requested, 0.001);
  ASSERT_EQ(peaks.size(), steps);
  EXPECT_LE(peaks[peaks.size() / 2], median);
}

/// Expects recorded schedules to be equal call for call; returns how many are also in order.
std::size_t equal_schedules_in_order(const std::string& path) {
  std::size_t in_order = 0;
  for (const Case& each : reference(path)) {
    EXPECT_TRUE(judge(each).front().exact) << each.id;
    in_order += predict_calls(*each.setup) == std::get<MeasuredSchedule>(each.measured).sequence ? 1U : 0U;
  }
  return in_order;
}

// Megatron-Core as ranks of every stage: held bytes within 0.001 %, the peak's median within 0.01 %.
TEST(References, MegatronStepsAreAsRecorded) {
  expect_megatron_steps("megatron/steps.json", 198, 0.00001, 0.0001);
}

// Peaks of eight B200, published with their launch scripts (MooreThreads/SimuMax), with Transformer Engine's
// cross-entropy.
TEST(References, MegatronPeaksArePublished) {
  std::size_t first_stages = 0;
  for (const Record& record : judge(reference("megatron/published.json"))) {
    ASSERT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
    const bool is_first =
        record.id.find("pp2") != std::string::npos && record.id.find("stage0") != std::string::npos;
    EXPECT_GE(*record.error, -0.0005) << record.id;
    EXPECT_LE(*record.error, is_first ? 0.0005 : 0.002) << record.id;
    first_stages += is_first ? 1U : 0U;
  }
  EXPECT_EQ(first_stages, 2U);
}

// Every call of them by kind, stages' sends included, and their order.
TEST(References, MegatronSchedulesAreAsRecorded) {
  const std::size_t in_order = equal_schedules_in_order("megatron/schedules.json");
  EXPECT_GE(in_order, 157U);  // weights of the others are gathered elsewhere in the forward
}

// Mixtures of experts, latent attention and prediction of several tokens: held bytes within 0.0001 %, the
// peak's median within 0.001 %.
TEST(References, MegatronMixturesAreAsRecorded) {
  expect_megatron_steps("megatron/mixtures_steps.json", 61, 0.000001, 0.00001);
  const std::size_t in_order = equal_schedules_in_order("megatron/mixtures_schedules.json");
  EXPECT_GE(in_order, 50U);  // weights of the others are gathered elsewhere in the forward
}

// Stages that hold several chunks of layers, and layouts of their own: the bounds of other dense models, and
// every schedule in order.
TEST(References, MegatronVirtualStagesAreAsRecorded) {
  expect_megatron_steps("megatron/virtual_steps.json", 35, 0.00001, 0.0001);
  for (const Case& each : reference("megatron/virtual_schedules.json")) {
    const Record record = judge(each).front();
    EXPECT_TRUE(record.exact) << each.id;
    EXPECT_EQ(record.part, "") << each.id;
  }
}

// Adapters of Megatron-Core's layers, of dense models and of mixtures: held bytes within 0.001 %, the peak's
// median within 0.01 %, every schedule equal.
TEST(References, MegatronAdaptersAreAsRecorded) {
  expect_megatron_steps("megatron_adapters/steps.json", 37, 0.00001, 0.0001);
  const std::size_t in_order = equal_schedules_in_order("megatron_adapters/schedules.json");
  EXPECT_GE(in_order, 36U);  // weights of the other are gathered elsewhere in the forward
}

// torchtitan as ranks of every stage: held bytes within 0.002 %, the peak's median within 0.002 %, the worst
// within 0.25 %.
TEST(References, TorchtitanStepsAreAsRecorded) {
  ASSERT_EQ(errors_of("torchtitan/steps.json", Statistic::held, 0.00002).size(), 242U);
  const std::vector<double> peaks = errors_of("torchtitan/steps.json", Statistic::requested, 0.0025);
  ASSERT_EQ(peaks.size(), 242U);
  EXPECT_LE(peaks[peaks.size() / 2], 0.00002);
}

// Every call of them by kind, stages' sends included. In two a parameter is gathered in another pass. Sends
// between two stages, and of chunks that form a V, are not told apart by direction.
TEST(References, TorchtitanSchedulesAreAsRecorded) {
  std::size_t equal = 0, in_order = 0;
  for (const Case& each : reference("torchtitan/schedules.json")) {
    const Record record = judge(each).front();
    equal += record.exact ? 1U : 0U;
    in_order += record.exact && record.part.empty() ? 1U : 0U;
  }
  EXPECT_EQ(equal, 240U);
  EXPECT_EQ(in_order, 240U);
}

// Runs that DeepSpeed refused are refused with its own words.
TEST(References, RefusedLongContextIsRefused) {
  const std::string path = "reference/sequence_parallel/refused.json";
  const Json rows = Json::parse(read_file(std::string(ZPLAN_TEST_DATA) + "/" + path));
  ASSERT_EQ(rows.size(), 8U);
  for (const Json& row : rows) {
    const JsonReader reader(row, path);
    const Json& spec = row["spec"];
    Training training;
    training.sequence_length = spec["s"];
    training.attention = Attention::sdpa;
    if (spec.value("lora", false)) training.method = Method::lora;
    Strategy strategy{.zero_stage = spec["zero"], .layout = {.sequence = spec["sp"]}};
    strategy.layout = strategy.layout.filling(spec["gpus"]);
    if (spec.contains("tiled_loss")) strategy.long_context.tiled_loss = LongContext::kAutoTiles;
    if (spec.contains("tiled_mlp")) strategy.long_context.tiled_mlp = LongContext::kAutoTiles;
    const World world{spec["gpus"], spec["gpus"]};
    const std::vector<std::string> reasons =
        why_illegal(read_config(reader.at("config")), training, strategy, world);
    const std::vector<std::string> warnings = long_context_warnings(training, strategy);
    // Adapters train where the example is changed: that is a warning.
    const bool adapters = training.method == Method::lora;
    EXPECT_EQ(reasons.empty(), adapters) << row["id"];
    EXPECT_TRUE(adapters ? !warnings.empty() : reasons.size() == 1) << row["id"];
    if (adapters) continue;
    const std::string error = row["error"];
    const std::string said = error.substr(error.find(": ") + 2, 24);
    EXPECT_NE(reasons.front().find(said), std::string::npos) << reasons.front();
  }
}

TEST(References, ARecordIsJudgedOrSaysWhyNot) {
  for (const char* path : {"published/memory.json", "published/collectives.json", "capacity/capacity.json"})
    for (const Record& record : judge(reference(path))) {
      EXPECT_NE(record.judged(), record.skip.any()) << record.id;
      EXPECT_EQ(record.judged(), record.predicted.has_value()) << record.id;
    }
}

}  // namespace
}  // namespace zplan::check::testing
