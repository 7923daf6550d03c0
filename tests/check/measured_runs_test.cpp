// Training runs that were measured on a GPU. The sample is made up; what is changed in it is one field each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hardware_profiles/cluster.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kGB = 1e9;

Json runs() { return parse_json(sample("runs.json"), "runs.json"); }

std::vector<Case> run_cases_in(const Json& json) { return cases_of(json.dump()); }

/// The document with row `index` alone.
Json only(std::size_t index) {
  Json json = runs();
  const Json row = json["rows"][index];
  json["rows"] = Json::array({row});
  return json;
}
constexpr std::size_t kAlone = 0, kShared = 1, kTooLarge = 2;

std::vector<Record> judged_runs_in(const Json& json) { return judge(run_cases_in(json)); }

const Record& of(const std::vector<Record>& records, Statistic statistic) {
  return *std::find_if(records.begin(), records.end(),
                       [statistic](const Record& record) { return record.statistic == statistic; });
}
Record of(const Json& json, Statistic statistic) { return of(judged_runs_in(json), statistic); }

std::vector<Statistic> statistics_in(const Json& json) {
  std::vector<Statistic> all;
  for (const Record& record : judged_runs_in(json)) all.push_back(record.statistic);
  return all;
}

TEST(MeasuredRuns, AreRecognisedAsADocument) {
  EXPECT_EQ(recognised(sample("runs.json"), "anything").format, Format::measured_runs);
  EXPECT_EQ(recognised(R"({"schema": "zplan.runs/2"})", "anything").format, std::nullopt);
  EXPECT_FALSE(needs_plan(Format::measured_runs));
  EXPECT_FALSE(leaves_machines_open(Format::measured_runs));
}

TEST(MeasuredRuns, AreJudgedOnMemoryAndSpeed) {
  const std::vector<Record> records = judged_runs_in(only(kAlone));
  ASSERT_THAT(records, SizeIs(4));
  for (const Record& record : records) {
    EXPECT_TRUE(record.judged()) << record.skip.text();
    EXPECT_EQ(record.kind,
              record.statistic == Statistic::tokens_per_second ? Kind::speed : Kind::measurement);
  }
  EXPECT_EQ(of(records, Statistic::allocated).measured, (Range{12 * kGB, 12 * kGB}));
  EXPECT_EQ(of(records, Statistic::reserved).measured, (Range{13 * kGB, 13 * kGB}));
  EXPECT_EQ(of(records, Statistic::device).measured, (Range{14 * kGB, 14 * kGB}));
  EXPECT_EQ(of(records, Statistic::allocated).subset, "NVIDIA H100 80GB HBM3");
  EXPECT_TRUE(of(records, Statistic::allocated).phase_right.has_value());
}

TEST(MeasuredRuns, PeaksAreOfTheLastStepByNumber) {
  Json json = only(kAlone);
  Json& measured = json["rows"][0]["measured"];
  measured["10"] = measured["5"];
  measured["10"]["peak_reserved"] = 20'000'000'000;
  EXPECT_EQ(of(json, Statistic::reserved).measured, (Range{20 * kGB, 20 * kGB}));
}

TEST(MeasuredRuns, ThePhaseOfThePeakIsJudged) {
  Json json = only(kAlone);
  const bool in_step = *of(json, Statistic::allocated).phase_right;
  Json& last = json["rows"][0]["measured"]["5"];
  last.erase("phases");
  last["peak_phase"] = "forward";
  EXPECT_FALSE(*of(json, Statistic::allocated).phase_right);
  EXPECT_EQ(of(json, Statistic::reserved).phase_right, std::nullopt);
  const MemoryPrediction predicted = predict_memory(*run_cases_in(json).front().setup, false);
  EXPECT_EQ(in_step, predicted.peak_phase == Phase::step);
}

TEST(MeasuredRuns, WithoutDeviceBytesOrSecondsAreJudgedOnTheRest) {
  Json json = only(kAlone);
  for (Json& step : json["rows"][0]["measured"]) step.erase("device_bytes"), step.erase("seconds");
  EXPECT_THAT(statistics_in(json), ElementsAre(Statistic::allocated, Statistic::reserved));
}

// The median of 0.5, 0.25 and 0.75 s; the first two steps, of 3 and 2 s, are the warm-up.
TEST(MeasuredRuns, SpeedIsOfTheStepsAfterTheSecond) {
  EXPECT_EQ(of(only(kAlone), Statistic::tokens_per_second).measured->low, 2 * 2 * 1024 / 0.5);
  Json json = only(kAlone);
  Json& measured = json["rows"][0]["measured"];
  measured.erase("5");
  EXPECT_EQ(of(json, Statistic::tokens_per_second).measured->low, 2 * 2 * 1024 / 0.375);
  measured.erase("4"), measured.erase("3");
  EXPECT_THAT(statistics_in(json), ElementsAre(Statistic::allocated, Statistic::reserved, Statistic::device));
}

TEST(MeasuredRuns, SpeedIsForetoldByTheCardsProfile) {
  const Record h100 = of(only(kAlone), Statistic::tokens_per_second);
  Json json = only(kAlone);
  json["card"]["name"] = "NVIDIA L4";
  EXPECT_LT(*of(json, Statistic::tokens_per_second).predicted, *h100.predicted / 2);
  json["card"]["name"] = "Nobody's GPU";
  EXPECT_EQ(of(json, Statistic::tokens_per_second).skip.text(), "no profile of this GPU: Nobody's GPU");
  EXPECT_TRUE(of(json, Statistic::device).judged());
}

TEST(MeasuredRuns, OfRanksThatShareACardAreNotJudgedOnSpeed) {
  const std::vector<Record> records = judged_runs_in(only(kShared));
  EXPECT_EQ(of(records, Statistic::tokens_per_second).skip.text(), "ranks that share a GPU");
  EXPECT_TRUE(of(records, Statistic::device).judged());
  EXPECT_EQ(of(records, Statistic::device).subset, "NVIDIA H100 80GB HBM3, ranks that share it");
}

TEST(MeasuredRuns, OfACardPerRankStateNoLinks) {
  Json json = only(kShared);
  json["rows"][0].erase("sharing");
  EXPECT_EQ(of(json, Statistic::tokens_per_second).skip.text(), "links between the GPUs are not stated");
  EXPECT_EQ(run_cases_in(json).front().setup->cluster.gpus_per_node, 4);
  json["rows"][0]["options"]["ranks_per_node"] = 2;
  EXPECT_EQ(run_cases_in(json).front().setup->cluster.gpus_per_node, 2);
}

// NCCL and DeepSpeed see nodes of one rank. Tensor parallelism is the exception: it may not leave a node.
TEST(MeasuredRuns, OfRanksThatShareACardAreNodesOfOne) {
  EXPECT_EQ(run_cases_in(only(kShared)).front().setup->cluster.gpus_per_node, 1);
  Json json = only(kShared);
  json["rows"][0]["options"]["tensor_parallel"] = 2;
  EXPECT_EQ(run_cases_in(json).front().setup->cluster.gpus_per_node, 2);
  EXPECT_TRUE(of(json, Statistic::allocated).judged());
}

TEST(MeasuredRuns, TheCardsCapabilityDecidesWhatLiesOutsidePyTorch) {
  const double reserved = *of(only(kShared), Statistic::reserved).predicted;
  const double outside = *of(only(kShared), Statistic::device).predicted - reserved;
  Json json = only(kShared);
  json["card"]["compute_capability"] = "8.9";
  EXPECT_LT(*of(json, Statistic::device).predicted - *of(json, Statistic::reserved).predicted, outside);
  const double allocated = *of(only(kShared), Statistic::allocated).predicted;
  EXPECT_LT(*of(json, Statistic::allocated).predicted, allocated);  // cuBLAS's workspaces
}

TEST(MeasuredRuns, FitWithinWhatWasFree) {
  const FitTally tally = fit_tally(judged_runs_in(runs()));
  EXPECT_EQ(tally, (FitTally{.ran = 2, .ran_and_fits = 2, .failed = 1, .failed_and_fits = 0}));
  Json json = only(kAlone);
  EXPECT_TRUE(*of(json, Statistic::allocated).fits);
  json["rows"][0]["available_bytes"] = 14'000'000'000;
  const FitTally less = fit_tally(judged_runs_in(json));
  EXPECT_EQ(less, (FitTally{.ran = 1, .ran_and_fits = 0}));
}

TEST(MeasuredRuns, ThatEndedOutOfMemoryNeededMoreThanWasFree) {
  const std::vector<Record> records = judged_runs_in(only(kTooLarge));
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records.front().statistic, Statistic::required);
  EXPECT_EQ(records.front().measured, (Range{80 * kGB, std::nullopt}));
  EXPECT_EQ(records.front().error, 0);
  EXPECT_EQ(records.front().part, "failed in loss");
  EXPECT_FALSE(*records.front().ran);
  EXPECT_FALSE(*records.front().fits);

  Json json = only(kAlone);
  json["rows"][0]["outcome"] = "out_of_memory";  // with the steps that ended
  EXPECT_THAT(statistics_in(json), ElementsAre(Statistic::required));
  EXPECT_LT(*of(json, Statistic::required).error, 0);
  EXPECT_TRUE(*of(json, Statistic::required).fits);
  EXPECT_EQ(of(json, Statistic::required).part, "");
}

// Real runs: where DeepSpeed chose the device and ran out of memory there, smaller GPUs ran.
TEST(MeasuredRuns, ThatFailAsTheyStartAreForetoldNotToFit) {
  std::size_t failed = 0;
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/reference/starts/starts.json";
  for (const Json& started : parse_json(read_file(path), path)) {
    for (const Json& tried : started["tried"]) {
      if (tried["runs"].get<bool>() || !tried["initialising"].get<bool>()) continue;
      ++failed;
      Json row = started;
      row["outcome"] = "out_of_memory", row["failed_in"] = "initialisation";
      row["sharing"] = row["options"]["gpus"], row["available_bytes"] = tried["size"];
      Json json = only(kTooLarge);
      json["card"]["total_bytes"] = std::int64_t{1} << 42;
      json["rows"] = Json::array({row});
      EXPECT_FALSE(*of(json, Statistic::required).fits) << row["id"] << " " << tried["size"];
      json["rows"][0]["available_bytes"] = row["runs_with"].get<std::int64_t>() + 4'000'000'000;
      EXPECT_TRUE(*of(json, Statistic::required).fits) << row["id"];
    }
  }
  EXPECT_GE(failed, 8U);
}

/// Figures of the stand-in for a device, presented as a GPU's: they do not contradict each other, and the
/// same figures are judged.
TEST(MeasuredRuns, ReadRowsAsStepRowsAreRead) {
  Json rows = parse_json(read_file(std::string(ZPLAN_TEST_DATA) + "/reference/steps/steps.json"), "steps");
  for (Json& row : rows) row.erase("host_bytes");  // runs on a GPU do not count it
  Json json = runs();
  json["card"]["total_bytes"] = std::int64_t{1} << 40;
  json["rows"] = rows;
  for (Json& row : json["rows"]) row["available_bytes"] = std::int64_t{1} << 39, row["outcome"] = "ran";
  const std::vector<Case> cases = run_cases_in(json), steps = cases_of(rows.dump());
  ASSERT_EQ(cases.size(), steps.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cases[i].id, steps[i].id);
    EXPECT_THAT(cases[i].flaws, IsEmpty()) << cases[i].id;
    EXPECT_EQ(cases[i].skip, steps[i].skip) << cases[i].id;
    const auto &ours = std::get<MeasuredMemory>(cases[i].measured),
               &theirs = std::get<MeasuredMemory>(steps[i].measured);
    ASSERT_EQ(ours.figures.size(), theirs.figures.size());
    for (std::size_t k = 0; k < ours.figures.size(); ++k)
      EXPECT_EQ(ours.figures[k].range, theirs.figures[k].range);
    EXPECT_EQ(ours.peak_phases, theirs.peak_phases);
  }
}

struct AlteredRow {
  const char* name;
  void (*change)(Json& row);
  const char* says;
};
void PrintTo(const AlteredRow& each, std::ostream* out) { *out << each.name; }

class DoctoredRun : public ::testing::TestWithParam<AlteredRow> {};

TEST_P(DoctoredRun, Fails) {
  Json json = only(kAlone);
  EXPECT_THAT(run_cases_in(json).front().flaws, IsEmpty());
  GetParam().change(json["rows"][0]);
  EXPECT_THAT(run_cases_in(json).front().flaws, ::testing::Contains(HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    OneFigure, DoctoredRun,
    ::testing::Values(
        AlteredRow{"Allocated", [](Json& row) { row["measured"]["3"]["peak_allocated"] = 13'500'000'000; },
                   "rows[0].measured.3.peak_allocated: 13500000000, more than peak_reserved 13000000000"},
        AlteredRow{"Requested", [](Json& row) { row["measured"]["1"]["peak_requested"] = 12'500'000'000; },
                   "rows[0].measured.1.peak_requested: 12500000000, more than peak_allocated 12000000000"},
        AlteredRow{"Reserved", [](Json& row) { row["available_bytes"] = 12'900'000'000; },
                   "rows[0].measured.2.peak_reserved: 13000000000, more than available_bytes 12900000000"},
        AlteredRow{"Device", [](Json& row) { row["available_bytes"] = 13'900'000'000; },
                   "rows[0].measured.2.device_bytes: 14000000000, more than available_bytes 13900000000"},
        AlteredRow{
            "PhaseOfThePeak",
            [](Json& row) { row["measured"]["4"]["phases"]["step"]["peak_allocated"] = 11'000'000'000; },
            "rows[0].measured.4.phases.step.peak_allocated: 11000000000, but by peak_phase it holds "
            "the step's peak, 12000000000"},
        AlteredRow{
            "AnotherPhase",
            [](Json& row) { row["measured"]["4"]["phases"]["loss"]["peak_allocated"] = 12'000'000'001; },
            "rows[0].measured.4.phases.loss.peak_allocated: 12000000001, more than the step's peak "
            "12000000000"},
        AlteredRow{"Parameters", [](Json& row) { row["parameters"] = 1'000'000'000; },
                   "rows[0].parameters: 1000000000, the config's model has 1235814400"}),
    [](const auto& each) { return std::string(each.param.name); });

// Four ranks may divide what is free unequally.
TEST(MeasuredRuns, OneOfTheRanksThatShareMayTakeMoreThanItsPart) {
  Json json = only(kShared);
  json["rows"][0]["available_bytes"] = 14'500'000'000;
  const std::vector<std::string> flaws = run_cases_in(json).front().flaws;
  EXPECT_THAT(flaws, ::testing::Each(HasSubstr("device_bytes")));
}

struct Broken {
  const char* name;
  void (*change)(Json& json);
  const char* place;
};
void PrintTo(const Broken& each, std::ostream* out) { *out << each.name; }

class BrokenRuns : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenRuns, NameThePlace) {
  Json json = only(kAlone);
  GetParam().change(json);
  const std::string message = message_of(json.dump());
  EXPECT_THAT(message, ::testing::StartsWith(std::string("file") + GetParam().place)) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    OneField, BrokenRuns,
    ::testing::Values(
        Broken{"NoCard", [](Json& json) { json.erase("card"); }, ": has no \"card\""},
        Broken{"NoName", [](Json& json) { json["card"].erase("name"); }, "#/card"},
        Broken{"CapabilityWord", [](Json& json) { json["card"]["compute_capability"] = "sm_90"; },
               "#/card/compute_capability"},
        Broken{"CapabilityEmpty", [](Json& json) { json["card"]["compute_capability"] = ""; },
               "#/card/compute_capability"},
        Broken{"NoMemory", [](Json& json) { json["card"]["total_bytes"] = 0; }, "#/card/total_bytes"},
        Broken{"VersionNumber", [](Json& json) { json["versions"]["torch"] = 2.11; }, "#/versions/torch"},
        Broken{"NoRows", [](Json& json) { json["rows"] = Json::array(); }, "#/rows"},
        Broken{"RowsObject", [](Json& json) { json["rows"] = Json::object(); }, "#/rows"},
        Broken{"NoOutcome", [](Json& json) { json["rows"][0].erase("outcome"); }, "#/rows/0"},
        Broken{"OutcomeUnknown", [](Json& json) { json["rows"][0]["outcome"] = "killed"; },
               "#/rows/0/outcome"},
        Broken{"NothingFree", [](Json& json) { json["rows"][0]["available_bytes"] = 0; },
               "#/rows/0/available_bytes"},
        Broken{"MoreFreeThanThere", [](Json& json) { json["rows"][0]["available_bytes"] = 85'000'000'001; },
               "#/rows/0/available_bytes"},
        Broken{"SharingMoreThanThereAre", [](Json& json) { json["rows"][0]["sharing"] = 2; },
               "#/rows/0/sharing"},
        Broken{"NoSteps", [](Json& json) { json["rows"][0]["measured"] = Json::object(); },
               "#/rows/0/measured"},
        Broken{"NotMeasured", [](Json& json) { json["rows"][0].erase("measured"); }, "#/rows/0"},
        Broken{"StepByName", [](Json& json) { json["rows"][0]["measured"]["last"] = Json::object(); },
               "#/rows/0/measured/last"},
        Broken{"StepEmpty", [](Json& json) { json["rows"][0]["measured"]["6"] = Json::object(); },
               "#/rows/0/measured/6"},
        Broken{"PhaseUnknown", [](Json& json) { json["rows"][0]["measured"]["5"]["peak_phase"] = "sleep"; },
               "#/rows/0/measured/5/peak_phase"},
        Broken{"SecondsZero", [](Json& json) { json["rows"][0]["measured"]["4"]["seconds"] = 0; },
               "#/rows/0/measured/4/seconds"},
        Broken{"DeviceNegative", [](Json& json) { json["rows"][0]["measured"]["4"]["device_bytes"] = -1; },
               "#/rows/0/measured/4/device_bytes"},
        Broken{"FailedThoughItRan", [](Json& json) { json["rows"][0]["failed_in"] = "loss"; },
               "#/rows/0/failed_in"},
        Broken{"FailedInUnknown",
               [](Json& json) {
                 json["rows"][0]["outcome"] = "out_of_memory";
                 json["rows"][0]["failed_in"] = "sleep";
               },
               "#/rows/0/failed_in"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(MeasuredRuns, NothingIsLeftOfTheCardForFourTimesAsMuch) {
  Json json = only(kShared);
  json["rows"][0]["available_bytes"] = 22'000'000'000;
  EXPECT_THAT(message_of(json.dump()), HasSubstr("/rows/0/available_bytes"));
}

}  // namespace
}  // namespace zplan::check::testing
