// `zplan check`: what is recognised, what is printed, and the exit status.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kReference = std::string(ZPLAN_SOURCE) + "/tests/reference/";
const std::string kSamples = std::string(ZPLAN_SOURCE) + "/tests/check/samples/";
const std::vector<std::string> kPlan{"--model", "Qwen2.5-0.5B", "--gpus",    "4",    "--mem",
                                     "80",      "--zero",       "2",         "--tp", "1",
                                     "--seq",   "1024",         "--offload", "none"};

Result check(std::vector<std::string> arguments, const std::vector<std::string>& more = {}) {
  arguments.insert(arguments.begin(), "check");
  arguments.insert(arguments.end(), more.begin(), more.end());
  return in_process(arguments);
}

json check_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  return json::parse(check(arguments).out);
}

TEST(Check, PrintsALinePerRecordAndASummary) {
  const Result result = check({kReference + "capacity/capacity.json"});
  EXPECT_EQ(result.status, kFits);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("Llama-2-7B|z2|n8|b2s1024|buckets=auto"));
  EXPECT_THAT(result.out, HasSubstr("34.2 GiB to 34.3 GiB"));
  EXPECT_THAT(result.out, HasSubstr("median"));
  EXPECT_GT(std::count(result.out.begin(), result.out.end(), '\n'), 50);
}

TEST(Check, WorstShowsSoManyOfThem) {
  const json all = check_json({kReference + "capacity/capacity.json"});
  const json worst = check_json({kReference + "capacity/capacity.json", "--worst", "3"});
  ASSERT_EQ(all.at("records").size(), 50U);
  ASSERT_EQ(worst.at("records").size(), 3U);
  EXPECT_EQ(worst.at("groups"), all.at("groups"));  // the summary is of all
  double before = 1e9;
  for (const json& record : worst.at("records")) {
    EXPECT_LE(std::abs(record.at("error").get<double>()), before);
    before = std::abs(record.at("error").get<double>());
  }
  for (const json& record : all.at("records"))
    if (!record.at("error").is_null()) {
      EXPECT_LE(std::abs(record.at("error").get<double>()),
                std::abs(worst.at("records")[0].at("error").get<double>()));
    }
}

TEST(Check, ReadsAFolderAndPassesOverTheRest) {
  const Folder folder;
  folder.write("a.json", read_text(kReference + "capacity/capacity.json"));
  folder.write("b/other.json", "{\"hello\": 1}");
  folder.write("b/broken.json", "{");
  folder.write(".hidden/c.json", "{");
  const Result result = check({folder.path()});
  EXPECT_EQ(result.status, kFits);
  EXPECT_THAT(result.err, HasSubstr("other.json is passed over"));
  EXPECT_THAT(result.err, HasSubstr("broken.json is passed over: not JSON"));
  EXPECT_THAT(result.err, Not(HasSubstr("hidden")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 2);
  EXPECT_EQ(check_json({folder.path()}).at("records").size(), 50U);
}

TEST(Check, RecordedRunsMayBeOneFileEach) {
  const Folder folder;
  for (const json& run : json::parse(read_text(kReference + "deepspeed_runs/runs.json")))
    if (run.at("name") == "s2_w2_ga1_tie" || run.at("name") == "s3_w2_ga1_ptdef")
      folder.write(run.at("name").get<std::string>() + ".json", run.dump());
  const json report = check_json({folder.path()});
  ASSERT_EQ(report.at("records").size(), 4U);
  for (const json& record : report.at("records"))
    if (record.at("statistic") == "held") {
      EXPECT_EQ(record.at("exact"), true) << record;
    }
}

TEST(Check, ExitStatusSaysWhetherTheToleranceHolds) {
  const std::string file = kReference + "deepspeed_runs/runs.json";
  EXPECT_EQ(check({file}).status, kFits);  // without a tolerance nothing can fail
  const std::string other = kReference + "published/collectives.json";
  const Result fails = check({other, "--tolerance", "0.0001"});
  EXPECT_EQ(fails.status, kNothingFits);
  EXPECT_THAT(fails.out, HasSubstr("median beyond 0.01 %: collectives seconds"));
  EXPECT_EQ(check({other, "--tolerance", "100%"}).status, kFits);
  EXPECT_EQ(check_json({other, "--tolerance", "0.01%"}).at("holds"), false);
}

// A check that judged nothing has shown nothing.
TEST(Check, NothingJudgedDoesNotHold) {
  const Folder folder;
  json skipped = json::array();
  for (const json& record : json::parse(read_text(kReference + "published/memory.json")))
    if (record.at("options").at("framework") == "llm.c") skipped.push_back(record);
  ASSERT_FALSE(skipped.empty());
  const std::string file = folder.write("skipped.json", skipped.dump());
  const Result result = check({file, "--tolerance", "1"});
  EXPECT_EQ(result.status, kNothingFits);
  EXPECT_THAT(result.out, HasSubstr("nothing was judged"));
  EXPECT_THAT(result.out, HasSubstr("framework llm.c"));
  EXPECT_EQ(check({file}).status, kFits);
}

TEST(Check, ALogIsHeldAgainstThePlanOfTheOptions) {
  const Result result = check({kSamples + "deepspeed.log"}, kPlan);
  EXPECT_EQ(result.status, kFits) << result.err;
  EXPECT_THAT(result.out, HasSubstr("see_memory_usage"));
  EXPECT_THAT(result.out, HasSubstr("comms all_gather 524288 B"));
  EXPECT_THAT(check({kSamples + "snapshot.json"}, kPlan).out, HasSubstr("requested"));
}

TEST(Check, NcclLogsNeedNoPlan) {
  const Result result = check({kSamples + "all_reduce.txt", kSamples + "reduce_scatter.json"});
  EXPECT_EQ(result.status, kFits) << result.err;
  EXPECT_THAT(result.out, HasSubstr("all_reduce 1048576 B"));
  EXPECT_THAT(result.out, HasSubstr("reduce_scatter 2097152 B"));
  EXPECT_EQ(check({kSamples + "all_reduce.txt", "--network", "100g"}).status, kFits);
}

TEST(Check, RunsOnACardAreCountedAmongTheFits) {
  const Result result = check({kSamples + "runs.json"});
  EXPECT_EQ(result.status, kFits) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("of 2 runs that ran, 2 are predicted to fit; of 1 that ended out of memory"));
  EXPECT_THAT(result.out, HasSubstr("ranks that share a GPU"));

  const Folder folder;
  json doctored = json::parse(read_text(kSamples + "runs.json"));
  doctored["rows"][0]["measured"]["5"]["peak_allocated"] = 13'500'000'000;
  const Result fails = check({folder.write("doctored.json", doctored.dump())});
  EXPECT_EQ(fails.status, kNothingFits);
  EXPECT_THAT(fails.out, HasSubstr("rows[0].measured.5.peak_allocated: 13500000000"));
}

TEST(Check, CsvHasALinePerRecord) {
  const std::string csv = check({kReference + "capacity/capacity.json", "--csv"}).out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 51);
  EXPECT_THAT(csv, testing::StartsWith("id,file,kind,statistic,predicted,measured_low,measured_high,error"));
}

TEST(Check, MarkdownHasTheOtherPlanners) {
  const std::string text = check({kReference + "steps/steps.json", "--markdown", "--worst", "1"}).out;
  EXPECT_THAT(text, HasSubstr("| DeepSpeed's estimators | step |"));
  EXPECT_THAT(text, HasSubstr("| --- |"));
}

void expect_bad(const std::vector<std::string>& arguments, const std::vector<std::string>& parts) {
  std::vector<std::string> all{"check"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const Result result = as_process(all);
  EXPECT_EQ(result.status, kBadInput) << result.out;
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
  const std::string last = result.err.substr(result.err.rfind("zplan: "));
  EXPECT_EQ(std::count(last.begin(), last.end(), '\n'), 1) << result.err;
}

TEST(BadCheck, NamesWhatIsWrong) {
  const Folder folder;
  const std::string unknown = folder.write("unknown.json", "{\"hello\": 1}");
  const std::string broken = folder.write("broken.json", R"([{"schema": "zplan.measurement/1", "id": 3}])");
  const std::string empty = folder.write("empty/readme.md", "nothing");
  const std::string runs = folder.write("runs.json", R"({"schema": "zplan.runs/1", "card": {"name": "L4"}})");
  expect_bad({}, {"check", "no file"});
  expect_bad({unknown}, {"unknown.json", "no measurement"});
  expect_bad({broken}, {"broken.json#/0"});
  expect_bad({runs}, {"runs.json#/card", "compute_capability"});
  expect_bad({folder.path("missing.json")}, {"missing.json"});
  expect_bad({folder.path("empty")}, {"empty", "holds no measurement"});
  expect_bad({kSamples + "deepspeed.log"}, {"--model"});
  expect_bad({kSamples + "deepspeed.log", "--model", "8B", "--gpus", "4"}, {"--zero", "one strategy"});
  expect_bad({kSamples + "deepspeed.log", "--model", "8B", "--micro-batch", "max"}, {"--micro-batch", "max"});
  expect_bad({kReference + "capacity/capacity.json", "--model", "8B"}, {"--model", "does nothing"});
  expect_bad({kSamples + "all_reduce.txt", "--gpus", "8"}, {"--gpus", "does nothing"});
}

TEST(BadCheck, OptionsThatAreNotOfCheck) {
  expect_bad({"x", "--emit", "y"}, {"--emit", "check"});
  expect_bad({"x", "--worst", "-1"}, {"--worst"});
  expect_bad({"x", "--tolerance", "2"}, {"--tolerance"});
  expect_bad({"x", "--tolerance", "much"}, {"--tolerance"});
  const Result result = in_process("--model 8B --worst 3");
  EXPECT_EQ(result.status, kBadInput);
  EXPECT_THAT(result.err, HasSubstr("--worst"));
}

}  // namespace
}  // namespace zplan::test
