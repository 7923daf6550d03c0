#include "planner/frameworks/deepspeed/config/read_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "support.h"

namespace zplan::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using enum OffloadDevice;

/// DeepSpeed's resolved settings for each file of golden/ (tests/reference/ds_config/resolved.json).
void expect_resolved(const DsConfigPins& pins, const Json& want) {
  EXPECT_EQ(pins.zero_stage->value, want["stage"]);
  EXPECT_EQ(to_name(pins.offload->value.optimizer), want["offload_optimizer"].get<std::string>());
  EXPECT_EQ(to_name(pins.offload->value.parameters), want["offload_param"].get<std::string>());
  EXPECT_EQ(pins.zero.reduce_bucket_size.value, want["reduce_bucket_size"]);
  EXPECT_EQ(pins.zero.prefetch_bucket_size.value, want["prefetch_bucket_size"]);
  EXPECT_EQ(pins.zero.persistence_threshold.value, want["persistence_threshold"]);
  EXPECT_EQ(pins.zero.max_live_parameters.value, want["max_live_parameters"]);
  EXPECT_EQ(pins.zero.max_reuse_distance.value, want["max_reuse_distance"]);
  EXPECT_EQ(pins.zero.sub_group_size.value, want["sub_group_size"]);
  EXPECT_EQ(pins.zero.parameter_alignment, want["parameter_alignment"]);
  const Strategy strategy{.zero_stage = pins.zero_stage->value, .zero = pins.zero};
  EXPECT_EQ(strategy.overlaps_communication(), want["overlap_comm"]);
  EXPECT_EQ(pins.zero.fp32_gradient_accumulation, want["grad_accum_dtype"] == "fp32");
  EXPECT_EQ(pins.precision->value == Precision::bf16, want["bf16"]);
  EXPECT_EQ(pins.precision->value == Precision::fp16, want["fp16"]);
  EXPECT_EQ(pins.tensor_parallel->value, std::max<std::int64_t>(1, want["autotp_size"]));
  EXPECT_EQ(pins.master_weights && !pins.master_weights->value, want["low_master"]);
  EXPECT_EQ(pins.optimizer.has_value(), !want["optimizer"].is_null());
}

TEST(ReadConfig, SaysWhatDeepSpeedResolves) {
  const Json records = test_json("reference/ds_config/resolved.json");
  ASSERT_GE(records.size(), 18u);
  for (const auto& [name, want] : records.items()) {
    SCOPED_TRACE(name);
    const DsConfigPins pins = read(test_json("deepspeed/golden/" + name + ".json"));
    expect_resolved(pins, want);
    const Batch batch = resolve_batch(pins, want["world"]);
    EXPECT_EQ(*batch.micro_batch_size, want["micro_batch_size"]);
    EXPECT_EQ(*batch.gradient_accumulation_steps, want["gradient_accumulation_steps"]);
  }
}

TEST(ReadConfig, AutoBucketsAreTheTrainers) {
  const Json records = test_json("reference/ds_config/hf_auto.json");
  const Json config = {{"train_batch_size", "auto"},
                       {"zero_optimization",
                        {{"stage", 3},
                         {"reduce_bucket_size", "auto"},
                         {"stage3_prefetch_bucket_size", "auto"},
                         {"stage3_param_persistence_threshold", "auto"}}}};
  ASSERT_GE(records.size(), 10u);
  for (const auto& [hidden, want] : records.items()) {
    const DsConfigPins pins = read(config, std::stoll(hidden));
    EXPECT_EQ(pins.zero.reduce_bucket_size.value, want["reduce_bucket_size"]) << hidden;
    EXPECT_EQ(pins.zero.prefetch_bucket_size.value, want["stage3_prefetch_bucket_size"]) << hidden;
    EXPECT_EQ(pins.zero.persistence_threshold.value, want["stage3_param_persistence_threshold"]) << hidden;
  }
}

Json reference_case(const std::string& name) {
  return test_json("reference/ds_config/cases/" + name + ".json");
}

TEST(ReadConfig, AcceptsWhatDeepSpeedAccepts) {
  for (const char* name :
       {"ok_ac", "ok_aio", "ok_auto_hf", "ok_base", "ok_dep_cpu_offload", "ok_float_bucket", "ok_mbonly",
        "ok_s2_off", "ok_s3", "ok_s3_off", "ok_sched", "ok_tp_s3_nobatch_tp2", "ok_tp_tp2"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(error_of(reference_case(name)), "");
  }
}

TEST(ReadConfig, RefusesWhatDeepSpeedRefuses) {
  const std::map<std::string, std::string> places{
      {"bad_ag_odd", "ds.json#/zero_optimization/allgather_bucket_size"},
      {"bad_both_prec", "ds.json#/fp16"},
      {"bad_maxgn", "ds.json#/optimizer/params"},
      {"bad_nvme_nopath", "ds.json#/zero_optimization/offload_optimizer"},
      {"bad_optparam", "ds.json#/optimizer/params"},
      {"bad_removed", "ds.json: \"elasticity\""},
      {"bad_removed_amp", "ds.json: \"amp\""},
      {"bad_s4", "ds.json#/zero_optimization/stage"},
      {"bad_sched_typo", "ds.json#/scheduler/params"},
      {"bad_tp_s3_tp2", "ds.json#/train_batch_size"},
      {"bad_unknown_zero", "ds.json#/zero_optimization"},
      {"bad_unknown_zero_auto_hf", "ds.json#/zero_optimization"}};
  for (const auto& [name, place] : places)
    EXPECT_THAT(error_of(reference_case(name)), HasSubstr(place)) << name;
}

/// A written value counts; a missing one is the release's default.
TEST(ReadConfig, ClippingFollowsTheRelease) {
  const auto clips = [](const Json& value, DeepSpeedRelease release) {
    Json config = {{"train_batch_size", 8}};
    if (!value.is_null()) config["gradient_clipping"] = value;
    return read_ds_config(config.dump(), "ds.json", 64, release).zero.gradient_clipping;
  };
  constexpr DeepSpeedRelease kBefore{0, 19, 2}, kSince{0, 19, 3};
  EXPECT_EQ(clips(nullptr, kBefore), 0);
  EXPECT_EQ(clips(nullptr, kSince), 1);
  EXPECT_EQ(clips(0.5, kBefore), 0.5);
  EXPECT_EQ(clips(0, kSince), 0);
  EXPECT_EQ(clips(-1.0, kSince), 0);
  EXPECT_EQ(clips("auto", kBefore), 1);
  EXPECT_THAT(error_of({{"train_batch_size", 8}, {"gradient_clipping", "much"}}),
              HasSubstr("ds.json#/gradient_clipping"));
}

TEST(ReadConfig, WarnsWhereDeepSpeedSaysNothing) {
  EXPECT_THAT(read(reference_case("bad_offp_s2")).warnings,
              Contains(HasSubstr("offload_param does nothing at stage 2")));
  EXPECT_THAT(read(reference_case("bad_typo_ac")).warnings,
              Contains(HasSubstr("did you mean partition_activations?")));
  EXPECT_THAT(read(reference_case("bad_nobatch")).warnings, Contains(HasSubstr("DeepSpeed needs")));
  EXPECT_THROW((void)resolve_batch(read(reference_case("bad_tri")), 4), InputError);
}

TEST(ReadConfig, LeavesOpenWhatItDoesNotDecide) {
  const DsConfigPins pins =
      read({{"bf16", {{"enabled", "auto"}}}, {"train_micro_batch_size_per_gpu", "auto"}});
  EXPECT_FALSE(pins.precision || pins.optimizer || pins.micro_batch_size || pins.master_weights);
  EXPECT_TRUE(pins.micro_batch_is_auto);
  EXPECT_THAT(pins.zero_stage->place,
              HasSubstr("which has no \"zero_optimization/stage\" (DeepSpeed's default)"));
}

TEST(ReadConfig, OldFormsMeanWhatTheyMeant) {
  const auto stage = [](bool on) {
    return read({{"train_batch_size", 8}, {"zero_optimization", on}}).zero_stage->value;
  };
  EXPECT_EQ(stage(true), 1);
  EXPECT_EQ(stage(false), 0);
  const Json old = {
      {"bfloat16", {{"enabled", true}}},
      {"zero_optimization", {{"stage", 3}, {"cpu_offload", true}, {"cpu_offload_param", true}}}};
  EXPECT_EQ(read(old).offload->value, (Offload{cpu, cpu}));
  EXPECT_EQ(read(old).precision->value, Precision::bf16);
}

TEST(ReadConfig, FieldNamesCountAsKeys) {
  const Json config = {{"train_batch_size", 8},
                       {"zero_optimization", {{"stage", 3}, {"prefetch_bucket_size", 7}}}};
  EXPECT_EQ(read(config).zero.prefetch_bucket_size, Elements(7));
  EXPECT_THAT(read(config).warnings, IsEmpty());
}

TEST(ReadConfig, HugeLimitsStayAddable) {
  const Json config = {{"train_batch_size", 8},
                       {"zero_optimization", {{"stage", 3}, {"stage3_max_live_parameters", INT64_MAX}}}};
  EXPECT_GT(read(config).zero.max_live_parameters, Elements(0));
  EXPECT_LT(read(config).zero.max_live_parameters, Elements(INT64_MAX / 8));
}

TEST(ReadConfig, NamesWhatIsNotCounted) {
  const auto warnings = [](int stage, const char* key, Json value) {
    return read({{"train_batch_size", 8}, {"zero_optimization", {{"stage", stage}, {key, std::move(value)}}}})
        .warnings;
  };
  EXPECT_THAT(warnings(3, "stage3_module_granularity_threshold", 7),
              ElementsAre("not counted: ds.json#/zero_optimization/stage3_module_granularity_threshold = 7 "
                          "(small modules are gathered together)"));
  EXPECT_THAT(warnings(3, "stage3_module_granularity_threshold", 0), IsEmpty());
  EXPECT_THAT(warnings(3, "zero_quantized_nontrainable_weights", true),
              ElementsAre(HasSubstr("frozen weights")));
  EXPECT_THAT(warnings(2, "round_robin_gradients", true), ElementsAre(HasSubstr("not counted")));
  EXPECT_THAT(warnings(3, "round_robin_gradients", true), ElementsAre(HasSubstr("does nothing at stage 3")));
  EXPECT_THAT(warnings(2, "zenflow", {{"topk_ratio", 0.1}}), ElementsAre(HasSubstr("ZenFlow")));
}

TEST(ReadConfig, QuantisedTrafficIsPlanned) {
  Json config = {{"train_batch_size", 8},
                 {"fp16", {{"enabled", true}}},
                 {"zero_optimization",
                  {{"stage", 3}, {"zero_quantized_weights", true}, {"zero_quantized_gradients", true}}}};
  EXPECT_TRUE(read(config).zero.quantized_weights);
  EXPECT_TRUE(read(config).zero.quantized_gradients);
  EXPECT_THAT(read(config).warnings, IsEmpty());
  config.erase("fp16");
  config["bf16"]["enabled"] = true;
  EXPECT_THAT(read(config).warnings, ElementsAre(HasSubstr("bf16 ones become other numbers")));
}

TEST(ReadConfig, SwapBuffersCountOnlyOnDisk) {
  const auto warnings = [](const char* device) {
    const Json offload = {{"device", device}, {"nvme_path", "/disk"}, {"buffer_count", 9}};
    return read({{"train_batch_size", 8}, {"zero_optimization", {{"stage", 3}, {"offload_param", offload}}}})
        .warnings;
  };
  EXPECT_THAT(warnings("cpu"), IsEmpty());
  EXPECT_THAT(warnings("nvme"), ElementsAre(HasSubstr("buffer_count = 9")));
}

TEST(ReadConfig, ValuesOutOfRangeAreNamed) {
  EXPECT_THAT(error_of({{"train_micro_batch_size_per_gpu", 0}}),
              HasSubstr("ds.json#/train_micro_batch_size_per_gpu: 0"));
  EXPECT_THAT(error_of({{"zero_optimization", {{"stage", 2}, {"reduce_bucket_size", 0.5}}}}),
              HasSubstr("whole number"));
  EXPECT_THAT(error_of({{"zero_optimization", {{"offload_param", {{"device", "gpu"}}}}}}),
              HasSubstr("cpu, nvme"));
  EXPECT_THAT(error_of({{"bf16", true}}), HasSubstr("accepted: a JSON object"));
  EXPECT_THAT(error_of({{"data_types", {{"grad_accum_dtype", "fp8"}}}}), HasSubstr("fp32, bf16, fp16"));
}

TEST(ReadConfig, BadJsonIsOneLine) {
  for (const char* text :
       {"", "{", "[]", "{\"a\": 1, \"a\": 2}", "// comment\n{}", "{\"zero_optimization\": [1]}",
        "{\"optimizer\": {}}", "{\"optimizer\": {\"type\": 5}}"}) {
    try {
      (void)read_ds_config(text, "ds.json", 64);
      FAIL() << text;
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("ds.json"));
    }
  }
}

TEST(Reconcile, TakesWhicheverIsThere) {
  const auto name = [](int stage) { return std::to_string(stage); };
  const Pin<int> pin = Pinned<int>{3, "ds.json#/zero_optimization/stage"};
  EXPECT_EQ(reconcile(std::optional<int>(), "--zero", pin, name), 3);
  EXPECT_EQ(reconcile(std::optional<int>(2), "--zero", Pin<int>(), name), 2);
  EXPECT_EQ(reconcile(std::optional<int>(3), "--zero", pin, name), 3);
}

TEST(Reconcile, NamesBothPlaces) {
  const Pin<int> pin = Pinned<int>{3, "ds.json#/zero_optimization/stage"};
  try {
    (void)reconcile(std::optional<int>(2), "--zero", pin, [](int stage) { return std::to_string(stage); });
    FAIL() << "2 is not 3";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "--zero: 2 contradicts ds.json#/zero_optimization/stage; accepted: 3 as there, or leave "
                 "the option out");
  }
}

}  // namespace
}  // namespace zplan::testing
