// Collectives that real DeepSpeed and FSDP2 issued, against the planner's: small recorded runs, and steps of
// real models.

#include "planner/communication/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST(IssuedCalls, ComeInTheRecordedOrder) {
  int ordered = 0, all = 0;
  for (const std::vector<Case>& schedules : {recorded_schedules(), real_models(), on_one_card(), quantised(),
                                             replicated(), quantised_and_replicated_models()})
    for (const Case& each : schedules) {
      const bool same =
          check::predict_calls(*each.setup) == std::get<MeasuredSchedule>(each.measured).sequence;
      ++all, ordered += same ? 1 : 0;
    }
  EXPECT_EQ(all, 178 + 76 + 15 + 22 + 9 + 28);
  EXPECT_GE(ordered, all * 9 / 10);
}

}  // namespace
}  // namespace zplan::testing
