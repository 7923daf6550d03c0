// Published runs of models that are divided over ranks, and of compiled and 8-bit training, by source.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/check/judge.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

std::string field(const std::string& name) {
  return read_file(std::string(ZPLAN_TEST_DATA) + "/reference/field/" + name);
}

/// Returns the absolute errors of a file's figures by source and statistic, in ascending order.
std::map<std::string, std::vector<double>> errors_of(const std::string& name) {
  std::map<std::string, std::vector<double>> errors;
  for (const Case& each : cases_of(field(name), name))
    for (const Record& record : judge(each)) {
      EXPECT_TRUE(record.judged()) << record.id << ": " << record.skip.text();
      if (record.judged())
        errors[each.source + ", " + std::string(to_name(record.statistic))].push_back(
            std::abs(*record.error));
    }
  for (auto& [group, all] : errors) std::sort(all.begin(), all.end());
  return errors;
}

/// Expects each source's figures to be as many as `bounds.json` says, with no larger median error.
void expect_medians(const std::string& name) {
  const Json bounds = parse_json(field("bounds.json"), "bounds.json").at(name);
  const auto errors = errors_of(name);
  EXPECT_EQ(errors.size(), bounds.size());
  for (const auto& [group, all] : errors) {
    ASSERT_TRUE(bounds.contains(group)) << group;
    EXPECT_EQ(all.size(), bounds[group].at("figures").get<std::size_t>()) << group;
    EXPECT_LE(median_of(all), bounds[group].at("median").get<double>()) << group;
  }
}

TEST(FieldRuns, KeepTheMediansOfTheirPeaks) { expect_medians("peaks.json"); }
TEST(FieldRuns, KeepTheMediansOfTheirSpeeds) { expect_medians("speeds.json"); }

// What is not planned is named.
TEST(FieldRuns, SayWhatIsNotPlanned) {
  const Json row = parse_json(field("speeds.json"), "speeds.json").front();
  const auto reason_of = [&row](const char* key, const Json& value) {
    Json changed = row;
    changed["options"][key] = value;
    return cases_of(Json::array({changed}).dump(), "row").front().skip.text();
  };
  EXPECT_EQ(reason_of("fp8", "nvfp4"), "products in 4 bits");
  EXPECT_EQ(reason_of("micro_batch", nullptr), "runs that leave open what micro_batch is");
  EXPECT_EQ(reason_of("pipeline_schedule", "interleaved zero bubble"), "schedule interleaved zero bubble");
  EXPECT_EQ(reason_of("recompute", "selective:router"), "recompute of router");
}

}  // namespace
}  // namespace zplan::check::testing
