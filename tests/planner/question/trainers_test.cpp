// Trainers' defaults, and data sets whose samples differ in length.

#include "planner/question/trainers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "models/base/error.h"
#include "models/base/format.h"
#include "planner/question/lengths.h"

namespace zplan {
namespace {

using ::testing::HasSubstr;

struct Settings {
  Training training;
  Checkpointing checkpointing{Checkpointing::selective};
  CheckpointOffload offload{};
};

std::vector<AppliedDefault> apply(Settings& settings, std::string_view trainers,
                                  const std::set<std::string_view>& given = {}) {
  std::vector<TrainerChoice> choices;
  for (const std::string_view each : split(trainers, ','))
    choices.push_back(parse_trainer("--trainer", each));
  return apply_trainers(choices, {settings.training, settings.checkpointing, settings.offload}, 1,
                        [&](std::string_view option) { return given.contains(option); });
}

std::string refusal(std::string_view text) {
  try {
    (void)parse_trainer("--trainer", text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Trainers, ChooseByRelease) {
  Settings today, before;
  today.training.framework = before.training.framework = Framework::torch;
  apply(today, "trl");
  apply(before, "trl@0.12");
  EXPECT_TRUE(today.training.fused_head);
  EXPECT_EQ(today.checkpointing, Checkpointing::full);
  EXPECT_FALSE(before.training.fused_head);
  EXPECT_EQ(before.checkpointing, Checkpointing::none);
}

TEST(Trainers, TakeWholeLogitsAsTheReleaseDoes) {
  const auto rollout = [](std::string_view trainer) {
    Settings settings;
    settings.training.objective = Objective::grpo;
    apply(settings, trainer);
    return settings.training.rollout;
  };
  EXPECT_TRUE(rollout("trl@0.18").whole_logits.compares_inside);
  EXPECT_FALSE(rollout("trl@0.19").whole_logits.compares_inside);
  EXPECT_TRUE(rollout("trl@0.18").whole_logits.omits_entropy);
  EXPECT_FALSE(rollout("trl@0.29").whole_logits.omits_entropy);
  EXPECT_EQ(rollout("trl@0.22").scoring, PolicyScoring::where_steps_part);
  EXPECT_EQ(rollout("trl@0.23").scoring, PolicyScoring::where_engines_differ);
  EXPECT_TRUE(rollout("trl@1.9").whole_logits.divides_in_place);
  EXPECT_FALSE(rollout("trl@1.10").whole_logits.divides_in_place);
  EXPECT_TRUE(rollout("swift").whole_logits.divides_in_place);
  EXPECT_FALSE(rollout("swift@3.12").whole_logits.divides_in_place);
  EXPECT_EQ(rollout("swift").scoring, PolicyScoring::always);
}

TEST(Trainers, LeaveWhatIsGiven) {
  Settings settings;
  const auto applied = apply(settings, "torchtune", {"--checkpointing", "--loss-chunks"});
  EXPECT_EQ(settings.checkpointing, Checkpointing::selective);
  EXPECT_EQ(settings.training.loss_chunks, 1);
  for (const AppliedDefault& each : applied) EXPECT_NE(each.option, "--checkpointing");
}

// The first of several trainers that has a default decides.
TEST(Trainers, StandOnLibraries) {
  Settings settings;
  const auto applied = apply(settings, "trl@0.24,transformers@4.47");
  EXPECT_EQ(settings.checkpointing, Checkpointing::full);
  EXPECT_EQ(settings.training.loss_shift, LossShift::logits);
  EXPECT_EQ(std::ranges::count(applied, "--checkpointing", &AppliedDefault::option), 1);
}

TEST(Trainers, LoadAdaptersBasesInTheirOwnTypes) {
  Settings trl, swift;
  for (Settings* each : {&trl, &swift}) {
    each->training.method = Method::lora;
    each->training = with_framework(each->training, Framework::torch);
  }
  apply(trl, "trl");
  apply(swift, "swift");
  EXPECT_TRUE(trl.training.master_weights);  // fp32 weights under autocast
  EXPECT_FALSE(swift.training.master_weights);
  EXPECT_EQ(swift.training.lora_rank, 8);
  EXPECT_DOUBLE_EQ(swift.training.lora_dropout, 0.05);
  EXPECT_TRUE(swift.training.reentrant_checkpointing);
}

TEST(Trainers, NameTheirModuleSet) {
  Settings settings, given;
  const auto applied = apply(settings, "litgpt");
  EXPECT_EQ(applied.front().option, "--modules");
  EXPECT_EQ(settings.training.modules.name, "litgpt");
  apply(given, "litgpt", {"--modules"});
  EXPECT_EQ(given.training.modules.name, "transformers");
}

// Unsloth runs on plain PyTorch, with adapters in fp32 under autocast and inputs of layers on the host.
TEST(Trainers, RunUnslothAsItSetsItselfUp) {
  Settings settings;
  settings.training.method = Method::qlora;
  apply(settings, "unsloth");
  const Training& t = settings.training;
  EXPECT_EQ(t.framework, Framework::torch);
  EXPECT_EQ(t.modules.name, "unsloth");
  EXPECT_EQ(settings.offload, CheckpointOffload::buffered);
  EXPECT_EQ(settings.checkpointing, Checkpointing::full);
  EXPECT_EQ(t.quantization, Quantization::nf4_double);
  EXPECT_EQ(t.optimizer, Optimizer::adamw8bit);
  EXPECT_EQ(t.lora_targets.modules.size(), 7U);
  EXPECT_TRUE(t.autocast && t.fp32_adapters && t.expandable_segments && t.wide_embedding_moments);
}

TEST(Trainers, RegisterEmbeddingsWhereTransformersDoes) {
  for (const auto& [trainer, registers] :
       {std::pair{"trl", true}, {"axolotl", true}, {"torchtune", false}, {"litgpt", false}}) {
    Settings settings;
    apply(settings, trainer);
    EXPECT_EQ(settings.training.wide_embedding_moments, registers) << trainer;
  }
}

// transformers' default of use_reentrant changed with 5.0.
TEST(Trainers, CheckpointReentrantlyBeforeRelease5) {
  Settings before, since;
  apply(before, "transformers@4.57");
  apply(since, "transformers@5.0");
  EXPECT_TRUE(before.training.reentrant_checkpointing);
  EXPECT_FALSE(since.training.reentrant_checkpointing);
}

TEST(Trainers, AreNamedOrRefused) {
  EXPECT_EQ(to_text(parse_trainer("--trainer", "trl@1.16.2")), "trl 1.16");
  EXPECT_THAT(refusal("tlr"), HasSubstr("trl"));
  EXPECT_THAT(refusal("trl@x"), HasSubstr("trl@1.16"));
  EXPECT_THAT(refusal("trl@1"), HasSubstr("trl@1.16"));
  EXPECT_THAT(refusal("trl@1.2.3.4"), HasSubstr("trl@1.16"));
}

// Source: ms-swift 4.6 swift/megatron/arguments/megatron_args.py; Megatron-Core 0.19.2
// megatron/training/arguments.py.
TEST(Trainers, HaveDefaultsOfTheirOwnUnderMegatron) {
  const auto megatron_defaults = [](std::string_view trainer) {
    Settings settings;
    settings.training = with_framework({}, Framework::megatron);
    MegatronOptions options = recommended_megatron_options();
    const auto none_given = [](std::string_view) { return false; };
    apply_trainers({parse_trainer("--trainer", trainer)},
                   {settings.training, settings.checkpointing, settings.offload, 1, &options}, 8, none_given);
    return std::pair{settings.checkpointing, options};
  };
  MegatronOptions swift;
  swift.attention = AttentionBackend::flash;
  swift.dispatcher = RowDispatcher::alltoall;
  swift.groups_experts = swift.router_in_fp32 = true;
  swift.fused_cross_entropy = swift.counts_tokens = swift.exchanges_shapes = true;
  swift.adds_in_product = swift.makes_mask = swift.fuses_rotation = false;
  EXPECT_EQ(megatron_defaults("swift"), std::pair(Checkpointing::selective, swift));
  EXPECT_EQ(megatron_defaults("megatron-lm"), std::pair(Checkpointing::none, MegatronOptions{}));
}

// Every row says where it is from, and sets what some run of its kind does not have already.
TEST(Trainers, SayWhereDefaultsAreFrom) {
  for (const Trainer& trainer : trainers()) {
    EXPECT_EQ(trainer.modules.empty(), trainer.modules_source.empty()) << trainer.name;
    for (const TrainerDefault& row : trainer.defaults) {
      EXPECT_FALSE(row.source.empty()) << row.option;
      EXPECT_TRUE(row.before == TrainerRelease{} || row.since < row.before) << row.option;
    }
  }
}

std::string length_refusal(std::string_view text) {
  try {
    (void)parse_lengths("lengths.txt", text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Lengths, AreReadOneALineOrCounted) {
  const SampleLengths one = parse_lengths("f", "10\n20\n20\n# rest\n\n40 # longest\n");
  const SampleLengths counted = parse_lengths("f", "20 2\r\n10\t1\n40,1");
  EXPECT_EQ(one, counted);
  EXPECT_EQ(one.samples(), 4);
  EXPECT_DOUBLE_EQ(one.mean(), 22.5);
  EXPECT_EQ(one.quantile(0.5), 20);
  EXPECT_EQ(one.cut(20).longest(), 20);
  EXPECT_EQ(one.cut(20).samples(), 4);
}

TEST(Lengths, NameTheLineThatIsNone) {
  EXPECT_THAT(length_refusal("10\nten\n"), HasSubstr("lengths.txt:2"));
  EXPECT_THAT(length_refusal("10\n-4\n"), HasSubstr("lengths.txt:2"));
  EXPECT_THAT(length_refusal("10 2 3\n"), HasSubstr("lengths.txt:1"));
  EXPECT_THAT(length_refusal("# nothing\n"), HasSubstr("no lengths"));
  EXPECT_THROW((void)lengths_of_moments("--lengths", "mean=5,spread=2"), InputError);
  EXPECT_THROW((void)lengths_of_moments("--lengths", "mean=5,spread=2,limit=x"), InputError);
}

// Two lengths, equally frequent: of two samples one is long in three of four batches.
TEST(Lengths, PadToTheLongestOfABatch) {
  const DataLengths data{.lengths = parse_lengths("f", "100 50\n300 50\n")};
  EXPECT_DOUBLE_EQ(data.padded_to(1), 200);
  EXPECT_DOUBLE_EQ(data.padded_to(2), 250);
  EXPECT_DOUBLE_EQ(data.useful_share(2), 0.8);
  EXPECT_EQ(data.worst(), 300);
  DataLengths grouped = data;
  grouped.batching = Batching::grouped;
  EXPECT_LT(grouped.padded_to(8), data.padded_to(8));
  EXPECT_GE(grouped.padded_to(8), 200);
}

TEST(Lengths, FollowMeanAndSpread) {
  const SampleLengths lengths = lengths_of_moments("--lengths", "mean=512,spread=300,limit=100000");
  EXPECT_NEAR(lengths.mean(), 512, 5);
  EXPECT_LT(lengths.quantile(0.5), 512);
  EXPECT_EQ(lengths_of_moments("--lengths", "mean=512,spread=300,limit=600").longest(), 600);
}

}  // namespace
}  // namespace zplan
