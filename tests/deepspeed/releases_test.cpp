#include "planner/frameworks/deepspeed/config/releases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grid.h"
#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/frameworks/deepspeed/config/keys.h"
#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/plan/legality.h"
#include "support.h"

namespace zplan::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Strategy kOffloaded{.zero_stage = 3,
                          .layout = {.shard = 8},
                          .offload_optimizer = OffloadDevice::cpu,
                          .offload_parameters = OffloadDevice::cpu};

Question question_for(DeepSpeedRelease release, Training training = {}) {
  training.deepspeed = release;
  return question_of(llama_8b(), 8, 1, training);
}

TEST(Releases, ALineAloneIsItsLastRelease) {
  EXPECT_EQ(parse_release("--deepspeed-version", "0.16"), (DeepSpeedRelease{0, 16, 9}));
  EXPECT_EQ(parse_release("--deepspeed-version", "0.17.2"), (DeepSpeedRelease{0, 17, 2}));
  EXPECT_EQ(parse_release("--deepspeed-version", "0.19"), DeepSpeedRelease{});
  EXPECT_EQ(to_text(known_releases().back()), kDeepSpeedVersion);
}

TEST(Releases, OthersAreRefused) {
  for (const char* text : {"", "0", "0.15", "0.20", "0.16.99", "0.16.", "0.16.1.2", "0.x", "v0.16", "-0.16"})
    EXPECT_THROW((void)parse_release("--deepspeed-version", text), InputError) << text;
}

/// Before 0.19.5 host memory was pinned only if the config said so.
TEST(Releases, NewDefaultsAreWrittenForOlderReleases) {
  const auto pinned = [](DeepSpeedRelease release) {
    return ds_config(plan_of(kOffloaded), question_for(release)).at("zero_optimization").at("offload_param");
  };
  EXPECT_EQ(pinned({0, 19, 4}), (Json{{"device", "cpu"}, {"pin_memory", true}}));
  EXPECT_EQ(pinned({0, 19, 5}), (Json{{"device", "cpu"}}));
}

TEST(Releases, UnknownKeysAreLeftOutAndSaid) {
  Strategy strategy{.zero_stage = 2, .layout = {.shard = 8}, .checkpointing = Checkpointing::none};
  strategy.zero.parameter_alignment = true;
  const auto written = [&](DeepSpeedRelease release) {
    return ds_config(plan_of(strategy), question_for(release))
        .at("zero_optimization")
        .contains("parameter_alignment");
  };
  EXPECT_TRUE(written({0, 19, 7}));
  EXPECT_FALSE(written({0, 19, 6}));
  EXPECT_THAT(ds_config_notes(plan_of(strategy), question_for({0, 19, 7})), IsEmpty());
  EXPECT_THAT(ds_config_notes(plan_of(strategy), question_for({0, 18, 9})),
              Contains(HasSubstr("DeepSpeed 0.18.9 does not know zero_optimization/parameter_alignment")));
}

/// Features that a plan may use begin with the release whose recorded keys have them.
TEST(Releases, PlansNeedWhatWasRecorded) {
  for (const KeyHistory& key : key_histories()) {
    if (!key.since) continue;
    DeepSpeedRelease before = *key.since;
    --before.patch;
    const auto legal = [](DeepSpeedRelease release) {
      const Strategy split{.zero_stage = 1, .layout = {.tensor = 2, .shard = 4}};
      return why_illegal(llama_8b(), question_for(release).training, split, {8, 8}).empty();
    };
    const auto drops = [](DeepSpeedRelease release) {
      return drops_master(question_for(release, {.master_weights = false}).training,
                          {.zero_stage = 2, .layout = {.shard = 8}});
    };
    if (key.pointer == "/tensor_parallel/autotp_size") {
      EXPECT_TRUE(legal(*key.since) && !legal(before));
    }
    if (key.pointer == "/bf16/bf16_master_weights_and_grads") {
      EXPECT_TRUE(drops(*key.since) && !drops(before));
    }
  }
  const Json recorded = test_json("../planner/frameworks/deepspeed/config/releases.json");
  const auto muon = [](const std::string& release, int stage) {
    const Training training =
        question_for(parse_release("test", release), {.optimizer = Optimizer::muon}).training;
    return why_illegal(llama_8b(), training, {.zero_stage = stage, .layout = {.shard = 8}}, {8, 8}).empty();
  };
  EXPECT_TRUE(muon(recorded.at("optimizers").at("Muon"), 2));
  EXPECT_FALSE(muon("0.17.5", 2));
  EXPECT_TRUE(muon(recorded.at("muon_at_stage_3"), 3));
  EXPECT_FALSE(muon("0.18.8", 3));
  EXPECT_TRUE(muon("0.18.8", 2));
}

/// Frozen parameters that are gathered to recompute a layer are kept for its backward from this release on.
TEST(Releases, FrozenLayersAreRecomputedReentrantlyBefore) {
  const Json recorded = test_json("../planner/frameworks/deepspeed/config/releases.json");
  const Training lora{.method = Method::lora};
  const Strategy full{.zero_stage = 3, .layout = {.shard = 8}};
  Strategy selective = full;
  selective.checkpointing = Checkpointing::selective;
  const auto says = [&](DeepSpeedRelease release, const Training& training) {
    return ds_config_notes(plan_of(full), question_for(release, training));
  };
  const auto legal = [&](DeepSpeedRelease release, const Strategy& strategy) {
    return why_illegal(llama_8b(), question_for(release, lora).training, strategy, {8, 8}).empty();
  };
  const DeepSpeedRelease since = parse_release("test", recorded.at("recomputes_frozen").get<std::string>());
  DeepSpeedRelease before = since;
  --before.patch;
  EXPECT_THAT(says(before, lora), Contains(HasSubstr("\"use_reentrant\": True")));
  EXPECT_THAT(says(since, lora), Not(Contains(HasSubstr("use_reentrant"))));
  EXPECT_THAT(says(before, {}), Not(Contains(HasSubstr("use_reentrant"))));
  EXPECT_TRUE(legal(before, full) && legal(since, selective));
  EXPECT_FALSE(legal(before, selective));
}

TEST(Releases, ClippingIsTheDefaultSince) {
  EXPECT_EQ(default_clipping({0, 16, 0}), 0);
  EXPECT_EQ(default_clipping({0, 19, 2}), 0);
  EXPECT_EQ(default_clipping({0, 19, 3}), 1);
  EXPECT_EQ(default_clipping({}), ZeroOptions{}.gradient_clipping);
}

/// The message on MiCS names the release that removed it.
TEST(Releases, MicsIsGoneSince) {
  const std::string removed =
      test_json("../planner/frameworks/deepspeed/config/releases.json").at("mics_removed");
  EXPECT_EQ(removed, "0.19.7");
  const Strategy replicated{.zero_stage = 3, .layout = {.shard = 4, .replicate = 2}};
  EXPECT_THAT(why_illegal(llama_8b(), Training{}, replicated, {8, 8}), Contains(HasSubstr(removed)));
  EXPECT_THAT(read_file(std::string(ZPLAN_TEST_DATA) + "/../docs/communication.md"),
              HasSubstr("MiCS, which DeepSpeed removed in " + removed));
}

TEST(Releases, NoConfigOfTheGridHasAKeyThatItsReleaseDoesNotKnow) {
  for (const GridCase& each : grid()) {
    Question question = each.question;
    question.training.deepspeed = {0, 16, 0};
    const Json config = ds_config(each.plan, question);
    for (const KeyHistory& key : key_histories())
      EXPECT_TRUE(!key.since || !config.contains(Json::json_pointer(key.pointer)))
          << each.name << key.pointer;
  }
}

}  // namespace
}  // namespace zplan::testing
