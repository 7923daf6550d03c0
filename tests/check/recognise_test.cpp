// Recognition: the schema or shape of a document decides its format.

#include <gtest/gtest.h>

#include "hardware_profiles/cluster.h"
#include "planner/check/readers/read.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

std::optional<Format> format_of(const std::string& text, const std::string& source = "anything") {
  return recognised(text, source).format;
}

TEST(Recognise, BySchema) {
  EXPECT_EQ(format_of(R"([{"schema": "zplan.measurement/1"}])"), Format::published_memory);
  EXPECT_EQ(format_of(R"([{"schema": "zplan.speed/1"}])"), Format::published_speed);
  EXPECT_EQ(format_of(R"([{"schema": "zplan.collectives/1"}])"), Format::published_collectives);
  EXPECT_EQ(format_of(R"({"schema": "zplan.runs/1"})"), Format::measured_runs);
  EXPECT_EQ(format_of(R"([{"schema": "zplan.measurement/2", "options": {}, "config": {}, "measured": {}}])"),
            std::nullopt);
}

TEST(Recognise, ByShape) {
  EXPECT_EQ(format_of(R"([{"id": "a", "options": {}, "config": {}, "measured": {}}])"), Format::step_rows);
  EXPECT_EQ(format_of(R"([{"options": {}, "runs_with": 2, "fails_with": 1}])"), Format::capacity_rows);
  EXPECT_EQ(format_of(R"([{"options": {}, "config": {}, "collectives": []}])"), Format::schedule_rows);
  EXPECT_EQ(format_of(R"([{"shape": {}, "attn": "sdpa", "saved_after_forward_bytes": 1}])"),
            Format::activation_rows);
  EXPECT_EQ(format_of(R"({"spec": {}, "ds_config": {}, "memory_per_rank": []})"), Format::recorded_runs);
  EXPECT_EQ(format_of(R"([{"spec": {}, "ds_config": {}, "memory_per_rank": []}])"), Format::recorded_runs);
  EXPECT_EQ(format_of(sample("reduce_scatter.json")), Format::nccl_json);
  EXPECT_EQ(format_of(sample("snapshot.json")), Format::memory_snapshot);
}

TEST(Recognise, TextsByTheirTables) {
  EXPECT_EQ(format_of(sample("all_reduce.txt")), Format::nccl_text);
  EXPECT_EQ(format_of(sample("all_gather_old.txt")), Format::nccl_text);
  EXPECT_EQ(format_of(sample("deepspeed.log")), Format::deepspeed_log);  // begins as a list would
}

TEST(Recognise, NeverByName) {
  EXPECT_EQ(format_of(sample("all_reduce.txt"), "steps.json"), Format::nccl_text);
  EXPECT_EQ(format_of("{}", "steps.json"), std::nullopt);
}

TEST(Recognise, NothingInOtherDocuments) {
  for (const char* text : {"", "hello", "{}", "[]", "[1]", "[[]]", "null", "3", R"({"options": 1})",
                           R"([{"schema": 3}])", R"([{"options": 1}])"})
    EXPECT_EQ(format_of(text), std::nullopt) << text;
}

TEST(Recognise, BrokenJsonIsAnError) { EXPECT_THROW((void)recognised("[{", "file"), InputError); }

}  // namespace
}  // namespace zplan::check::testing
