// Against the real DeepSpeed: where it stops, lint has an error that says so, and nowhere else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "lint_support.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan::testing {
namespace {

using ::testing::Contains;

TEST(LintReference, StopsWhereDeepSpeedStops) {
  const Json records = test_json("reference/ds_config/lint.json");
  ASSERT_GE(records.size(), 200U);
  for (const Json& record : records) {
    const std::string text = record.at("text");
    // DeepSpeed alone: nobody fills in "auto".
    const auto findings =
        lint(text, "ds.json", {.style = ConfigStyle::plain, .gpus = record.at("world").get<std::int64_t>()});
    const bool stops = std::any_of(findings.begin(), findings.end(), [](const Finding& each) {
      return each.severity == Severity::error && each.outcome == Outcome::raises;
    });
    EXPECT_EQ(stops, !record.at("stops").is_null()) << text << "\nDeepSpeed: " << record.at("stops") << "\n"
                                                    << lines(findings);
  }
}

/// Returns the value that pydantic converts to, as Python's repr() shows it, for the kinds that the records
/// have.
std::string as_python(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.dump();
}

TEST(LintReference, ValuesAreReadAsPydanticReadsThem) {
  const Json records = test_json("reference/ds_config/values.json");
  ASSERT_GE(records.size(), 200U);
  for (const Json& record : records) {
    const std::string name = record.at("kind");
    ValueRule rule{.checked = true};
    rule.null = name == "optional";
    rule.kind = name == "optional" ? ValueKind::boolean : parse_name<ValueKind>("kind", name);
    if (name == "choice") rule.choices = {"none", "cpu"};
    const Fit fit = fit_of(rule, record.at("value"));
    EXPECT_EQ(fit == Fit::right || fit == Fit::converted, record.at("accepted").get<bool>())
        << name << " " << record.at("value");
    const bool scalar = rule.kind == ValueKind::boolean || rule.kind == ValueKind::integer;
    if (fit == Fit::converted && scalar) {
      EXPECT_EQ(as_python(converted(rule, record.at("value"))), record.at("becomes")) << record.at("value");
    }
  }
}

struct Verdict {
  const char* name;
  const char* pointer;  ///< where the error is; "-": there is none
};

/// The verdict of each file of tests/reference/ds_config/cases, which its name says, and where it is.
constexpr std::array<Verdict, 31> kVerdicts{{
    {"bad_ag_odd", "/zero_optimization/allgather_bucket_size"},
    {"bad_auto_nohf", "/train_batch_size"},
    {"bad_both_prec", "/fp16"},
    {"bad_maxgn", "/optimizer/params/max_grad_norm"},
    {"bad_nobatch", ""},
    {"bad_nvme_nopath", "/zero_optimization/offload_optimizer"},
    {"bad_offp_s2", "/zero_optimization/offload_param"},
    {"bad_optparam", "/optimizer/params/foo"},
    {"bad_removed", "/elasticity"},
    {"bad_removed_amp", "/amp"},
    {"bad_s4", "/zero_optimization/stage"},
    {"bad_sched_typo", "/scheduler/params/warmup_steps"},
    {"bad_tp_s3_tp2", "/train_batch_size"},
    {"bad_tri", "/train_batch_size"},
    {"bad_typo_ac", "/activation_checkpointing/partition_activation"},
    {"bad_unknown_top", "-"},  // DeepSpeed ignores it
    {"bad_unknown_zero", "/zero_optimization/foo"},
    {"bad_unknown_zero_auto_hf", "/zero_optimization/foo"},
    {"ok_ac", "-"},
    {"ok_aio", "-"},
    {"ok_auto_hf", "-"},
    {"ok_base", "-"},
    {"ok_dep_cpu_offload", "-"},
    {"ok_float_bucket", "-"},
    {"ok_mbonly", "-"},
    {"ok_s2_off", "-"},
    {"ok_s3", "-"},
    {"ok_s3_off", "-"},
    {"ok_sched", "-"},
    {"ok_tp_s3_nobatch_tp2", "-"},
    {"ok_tp_tp2", "-"},
}};

/// Four ranks; "_hf": the Trainer fills in "auto"; "_tp2": two tensor-parallel ranks.
LintOptions options_of(std::string_view name) {
  LintOptions options{.style = name.ends_with("_hf") ? ConfigStyle::hf_auto : ConfigStyle::plain, .gpus = 4};
  if (name.ends_with("_tp2")) options.tensor_parallel = 2;
  return options;
}

TEST(LintReference, CasesHaveTheirVerdicts) {
  for (const auto& [name, pointer] : kVerdicts) {
    std::string path = ZPLAN_TEST_DATA "/reference/ds_config/cases/";
    (path += name) += ".json";
    const auto findings = lint(read_file(path), name, options_of(name));
    std::vector<std::string> errors;
    for (const Finding& each : findings)
      if (each.severity == Severity::error) errors.push_back(each.pointer);
    if (std::string_view(pointer) == "-")
      EXPECT_TRUE(errors.empty()) << name << "\n" << lines(findings);
    else
      EXPECT_THAT(errors, Contains(pointer)) << name << "\n" << lines(findings);
  }
}

}  // namespace
}  // namespace zplan::testing
