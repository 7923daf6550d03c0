// `zplan search` as it is typed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/plan/accuracy.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kQuestion = "--model Qwen/Qwen3-1.7B --gpus 4 --gpu RTX-4090-24GB";

/// The first of the commands under "Next", without the program's name.
std::string pinned_command(const std::string& text) {
  const std::string next = "\nNext\n  zplan ";
  const std::size_t begin = text.find(next) + next.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Search, ThePinnedCommandPlansWhatTheSearchReports) {
  for (const std::string more : {"", " --global-batch 64", " --framework fsdp --grad-accum 4"}) {
    const std::string line = "search " + kQuestion + more;
    const json found = report(line);
    const json pinned = report(pinned_command(in_detail(line).out));
    ASSERT_EQ(pinned["plans"].size(), 1U) << line;
    json wanted = found["plans"][0], planned = pinned["plans"][0];
    EXPECT_EQ(wanted["id"], planned["id"]);
    EXPECT_EQ(wanted["strategy"], planned["strategy"]);
    EXPECT_EQ(wanted["memory"], planned["memory"]);
    EXPECT_EQ(wanted["communication"], planned["communication"]);
    EXPECT_EQ(wanted["time"], planned["time"]);
    EXPECT_EQ(found["ds_config"], pinned["ds_config"]);
    const json& best = found["search"]["best"][0];
    EXPECT_EQ(best["tokens_per_second"], planned["time"]["tokens_per_second"]);
    EXPECT_EQ(best["step"], planned["time"]["step"]);
  }
}

TEST(Search, WhatIsPinnedStays) {
  const json found =
      report("search " + kQuestion + " --zero 2 --checkpointing full --micro-batch 2 --offload none");
  for (const json& each : found["search"]["best"]) {
    EXPECT_EQ(each["activation_checkpointing"], "full");
    EXPECT_EQ(each["micro_batch_size"], 2);
  }
  for (const json& each : found["search"]["families"]) EXPECT_THAT(each["id"], Not(HasSubstr("zero3")));
}

TEST(Search, SpeedsAsCloseAsPredictionsAreOffAreTies) {
  const json found = report("search --model 8B --gpus 5 --mem 44");
  const json& best = found["search"]["best"];
  const auto framework = [](const json& each) {
    return parse_name<Framework>("framework", each["framework"].get<std::string>());
  };
  std::size_t ties = 0;
  for (const json& each : best) {
    EXPECT_EQ(each["tie_within"], speed_tie(framework(each), framework(best.front()), "generic").within);
    EXPECT_EQ(each["tie"], each["share_of_fastest"] > 1 - each["tie_within"].get<double>());
    ties += each["tie"] ? 1U : 0U;
  }
  ASSERT_GT(ties, 1U);
  const std::string text = in_detail("search --model 8B --gpus 5 --mem 44").out;
  EXPECT_THAT(text, HasSubstr("As fast, for all that is known (half of the "));
}

TEST(Search, NoFasterFamilyThanTheBestFits) {
  const json found = report("search " + kQuestion);
  const double best = found["search"]["best"][0]["tokens_per_second"];
  for (const json& each : found["search"]["families"])
    if (each["outcome"] == "best" || each["outcome"] == "slower") {
      EXPECT_LE(each["tokens_per_second"], best * 1.01) << each["id"];
    }
}

TEST(Search, OneLinePerFamilyAsCsv) {
  const json found = report("search " + kQuestion);
  const std::string csv = in_process("search " + kQuestion + " --csv").out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'),
            static_cast<std::ptrdiff_t>(found["search"]["families"].size()) + 1);
  EXPECT_THAT(csv, HasSubstr(",too large,"));
}

TEST(Search, WhereNothingFitsItSaysSoAndEnds1) {
  const Result result = in_detail("search --model 70B --gpus 2 --mem 24");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("Nothing fits"));
}

TEST(Search, BadInputIsNamed) {
  EXPECT_THAT(in_process("search zero3 --model 8B").err, HasSubstr("search takes options only"));
  EXPECT_THAT(in_process("search --model 8B --ds-config x.json").err, HasSubstr("--ds-config"));
  EXPECT_EQ(in_process("search --model 8B --gpus 4 --tp 3").status, 2);
}

}  // namespace
}  // namespace zplan::test
