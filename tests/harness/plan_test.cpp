#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/replay.h"
#include "models/base/error.h"

namespace zplan::bench {
namespace {

using testing::HasSubstr;

Json schedule() {
  return Json::parse(R"({"plan": "zero3", "ranks": 4, "tensor_parallel": 2, "data_parallel": 2,
    "device_memory_bytes": 1000, "step_seconds": 0.1, "communication_seconds": 0.05, "calls": [
    {"operation": "all_gather", "group": "data", "group_size": 2, "stride": 1, "phase": "forward", "dtype": "bfloat16",
     "element_bytes": 2, "purpose": "layer weights", "elements": 100, "bytes": 200, "times": 3, "seconds": 0.01,
     "compute_seconds": 0.002, "exposed": true},
    {"operation": "all_reduce", "group": "tensor", "group_size": 2, "phase": "backward", "dtype": "float32",
     "purpose": "gradients", "elements": 7}]})");
}

class PlanFile : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "plan" + std::to_string(getpid()) + ".json";
  void TearDown() override { std::filesystem::remove(path_); }
  PlannedStep read(const std::string& text, std::int64_t ranks = 4) {
    std::ofstream(path_) << text;
    return read_plan(path_, ranks);
  }
};

TEST_F(PlanFile, IsReadFromAReportAndByItself) {
  const PlannedStep step = read(schedule().dump());
  ASSERT_EQ(step.calls.size(), 2U);
  EXPECT_EQ(step.device_memory, Bytes(1000));
  const PlannedCall& call = step.calls[0];
  EXPECT_EQ(call.work,
            (Work{.operation = Operation::all_gather, .dtype = DataType::bfloat16, .elements = 100}));
  EXPECT_EQ(call.groups, (Groups{.kind = GroupKind::data, .size = 2, .stride = 1, .tensor = 2}));
  EXPECT_EQ(call.times, 3);
  EXPECT_EQ(call.compute, Seconds(0.002));
  EXPECT_TRUE(call.exposed);
  EXPECT_EQ(step.calls[1].times, 1);
  EXPECT_EQ(step.plan["file"], path_);
  EXPECT_EQ(read(Json{{"schema", "zplan.report/1"}, {"schedule", schedule()}}.dump()).calls.size(), 2U);
}

/// Experts are shared out among neighbours of the world and held alike by every second rank, or the reverse.
TEST_F(PlanFile, HasExpertParallelGroupsAndUnevenExchanges) {
  Json mixture = schedule();
  mixture["tensor_parallel"] = 1, mixture["expert_parallel"] = 2;
  mixture["calls"] = Json::parse(R"([
    {"operation": "all_to_all", "group": "expert", "group_size": 2, "phase": "forward", "dtype": "bfloat16",
     "purpose": "routed tokens", "elements": 10, "send_counts": [7, 3]},
    {"operation": "all_to_all", "group": "expert", "group_size": 2, "phase": "forward", "dtype": "bfloat16",
     "purpose": "routed tokens", "elements": 14, "receive_counts": [7, 3]},
    {"operation": "all_reduce", "group": "expert-data", "group_size": 2, "phase": "backward", "dtype": "bfloat16",
     "purpose": "gradients", "elements": 7}])");
  const Groups neighbours{.kind = GroupKind::data, .size = 2},
      apart{.kind = GroupKind::data, .size = 2, .stride = 2};
  const PlannedStep step = read(mixture.dump());
  EXPECT_EQ(step.calls[0].work.counts, (std::vector<std::int64_t>{7, 3}));
  EXPECT_FALSE(step.calls[0].work.returns);
  EXPECT_TRUE(step.calls[1].work.returns);
  EXPECT_EQ(step.calls[1].groups, neighbours);
  EXPECT_EQ(step.calls[2].groups, apart);
  EXPECT_EQ(members(apart, 4, 1, "p"), (std::vector<int>{1, 3}));
  mixture["data_before_expert"] = true;
  EXPECT_EQ(read(mixture.dump()).calls[1].groups, apart);
  EXPECT_EQ(read(mixture.dump()).calls[2].groups, neighbours);
  for (const char* counts : {"[7, 4]", "[10]", "[7, -1]", "[5, 3, 2]", "7"}) {
    Json broken = mixture;
    broken["calls"][0]["send_counts"] = Json::parse(counts);
    EXPECT_THROW((void)read(broken.dump()), InputError) << counts;
  }
}

TEST_F(PlanFile, ThatCannotBeReplayedIsNamedByPlace) {
  const auto refused = [this](const std::string& pointer, const Json& value, const std::string& named) {
    Json broken = schedule();
    broken[Json::json_pointer(pointer)] = value;
    try {
      (void)read(broken.dump());
      ADD_FAILURE() << pointer;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(pointer)) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(named));
    }
  };
  refused("/ranks", 8, "the plan is for 8 ranks, and 4 run here");
  refused("/calls/0/elements", 101, "a multiple of the group's size");
  refused("/calls/0/elements", 0, "0");
  refused("/calls/0/dtype", "float12", "float12");
  refused("/calls/0/operation", "all_sum", "all_sum");
  refused("/calls/0/group_size", 4, "data groups of 4");
  refused("/calls/1/group", "pipeline", "pipeline");
  refused("/calls/1/times", -1, "-1");
  EXPECT_THROW((void)read("{}"), InputError);
  EXPECT_THROW((void)read("[1, 2]"), InputError);
  EXPECT_THROW((void)read("{"), InputError);
  EXPECT_THROW((void)read_plan("/nowhere/plan.json", 4), InputError);
}

}  // namespace
}  // namespace zplan::bench
