// Collectives that real DeepSpeed and FSDP2 issued, against the planner's: small recorded runs, and steps of
// real models.

#include "planner/cost/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "hardware_profiles/cluster.h"
#include "planner/check/judge.h"
#include "tests/planner/recorded_run.h"

namespace zplan::testing {
namespace {

using check::Case;
using check::MeasuredSchedule;

std::vector<Case> schedules_in(const char* file, std::vector<Case> (*read)(const JsonReader&)) {
  std::vector<Case> all = read(JsonReader(test_json(file), file));
  all.erase(std::remove_if(
                all.begin(), all.end(),
                [](const Case& each) { return !std::holds_alternative<MeasuredSchedule>(each.measured); }),
            all.end());
  return all;
}

class IssuedCalls : public ::testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] const MeasuredSchedule& recorded() const {
    return std::get<MeasuredSchedule>(GetParam().measured);
  }
};

TEST_P(IssuedCalls, CountAndElementsPerOperationGroupAndPhase) {
  ASSERT_FALSE(GetParam().skip.any()) << GetParam().skip.text();
  const check::ScheduleDifference difference =
      check::compare_calls(check::predict_calls(*GetParam().setup), recorded().calls);
  EXPECT_TRUE(difference.equal) << difference.planned << " planned, " << difference.recorded << " recorded";
}

std::string schedule_test_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.id;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

std::vector<Case> recorded_schedules() {
  return schedules_in("reference/deepspeed_runs/runs.json", check::read_recorded_runs);
}
std::vector<Case> real_models() {
  return schedules_in("reference/schedules/schedules.json", check::read_schedule_rows);
}
std::vector<Case> on_one_card() {
  return schedules_in("reference/schedules/one_card.json", check::read_schedule_rows);
}

std::vector<Case> quantised() {
  return schedules_in("reference/sharding_options/runs.json", check::read_recorded_runs);
}
std::vector<Case> replicated() {
  return schedules_in("reference/sharding_options/fsdp.json", check::read_schedule_rows);
}
std::vector<Case> quantised_and_replicated_models() {
  return schedules_in("reference/sharding_options/schedules.json", check::read_schedule_rows);
}

INSTANTIATE_TEST_SUITE_P(RecordedRuns, IssuedCalls, ::testing::ValuesIn(recorded_schedules()),
                         schedule_test_name);
INSTANTIATE_TEST_SUITE_P(RealModels, IssuedCalls, ::testing::ValuesIn(real_models()), schedule_test_name);
INSTANTIATE_TEST_SUITE_P(OnOneCard, IssuedCalls, ::testing::ValuesIn(on_one_card()), schedule_test_name);
INSTANTIATE_TEST_SUITE_P(Quantised, IssuedCalls, ::testing::ValuesIn(quantised()), schedule_test_name);
INSTANTIATE_TEST_SUITE_P(Replicated, IssuedCalls, ::testing::ValuesIn(replicated()), schedule_test_name);
INSTANTIATE_TEST_SUITE_P(QuantisedAndReplicatedModels, IssuedCalls,
                         ::testing::ValuesIn(quantised_and_replicated_models()), schedule_test_name);

/// Each has the calls that were recorded, and issues some of them at another place of the step.
std::set<std::string> issued_in_another_order() {
  return {
      // ZeRO-3 with adapters.
      "lora8_s3_w2_ga1_ptdef",
      "lora8_s3_w2_ga1_ptdef_gc",
      "lora8_s3_w4_ga1_ptdef",
      "lora8_s3_w4_ga1_ptdef_gc",
      "mem_lora8_s3_w2_ga1",
      "mem_lora8_s3_w4_ga1",
      "Llama-3-8B|z3|n8|b1s1024|ckpt|lora=True|adapter_dtype=fp32",
      "Llama-3.2-1B|z3|n4|b1s1024|ckpt|lora=True|adapter_dtype=fp32",
      "Qwen2.5-0.5B|z3|n2|b1s1024|ckpt|lora=True|steps=3",
      "Qwen2.5-0.5B|z3|n4|b1s512|ckpt|lora=True|steps=3",
      // ZeRO-2 with accumulation.
      "Llama-3-8B|z2|n8|b1s1024|ckpt|gas4",
  };
}

TEST(IssuedCalls, ComeInTheRecordedOrder) {
  std::set<std::string> otherwise;
  int all = 0;
  for (const std::vector<Case>& cases : {recorded_schedules(), real_models(), on_one_card(), quantised(),
                                         replicated(), quantised_and_replicated_models()})
    for (const Case& each : cases) {
      const bool same =
          check::predict_calls(*each.setup) == std::get<MeasuredSchedule>(each.measured).sequence;
      ++all;
      if (!same) otherwise.insert(each.id);
    }
  EXPECT_EQ(all, 178 + 76 + 15 + 22 + 9 + 28);
  EXPECT_EQ(otherwise, issued_in_another_order());
}

}  // namespace
}  // namespace zplan::testing
