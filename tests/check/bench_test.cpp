// Results of the benchmark against the plan and the pricer. The samples are made up (samples/make_bench.py);
// what is changed in them is one figure each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/check/judge.h"
#include "support.h"

namespace zplan::check::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Json result_json(const std::string& name = "bench_nccl.json") { return parse_json(sample(name), name); }

std::vector<Case> cases_in(const Json& json, const std::string& gpu = {}) {
  Given given{built_in_profiles(), {}, nullptr};
  given.machines.gpu = gpu;
  return read_cases(recognised(json.dump(), "result.json"), given);
}
std::vector<Record> judged_in(const Json& json, const std::string& gpu = {}) {
  return judge(cases_in(json, gpu));
}

std::vector<std::string> failures_in(const Json& json) {
  std::vector<std::string> failures;
  for (const Record& record : judged_in(json))
    if (!record.failure.empty()) failures.push_back(record.failure);
  return failures;
}

std::vector<Record> of_kind(const std::vector<Record>& all, Kind kind, Statistic statistic) {
  std::vector<Record> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [&](const Record& record) { return record.kind == kind && record.statistic == statistic; });
  return some;
}

TEST(BenchResults, AreRecognised) {
  EXPECT_EQ(recognised(sample("bench_nccl.json"), "anything").format, Format::bench_result);
  EXPECT_EQ(recognised(R"({"schema": "zplan.bench/2"})", "anything").format, std::nullopt);
}

TEST(BenchResults, OfAGroupAloneAreHeldAgainstThePricer) {
  const Json json = result_json();
  const std::vector<Record> records = of_kind(judged_in(json), Kind::collectives, Statistic::seconds);
  ASSERT_THAT(records, SizeIs(29));
  const Cluster four = assemble_cluster({.gpu = "H100-SXM-80GB", .memory = {}, .gpus = 4, .host_memory = {}},
                                        built_in_profiles());
  const CollectivePricer pricer(four, Operation::all_reduce, place_of_all(four));
  EXPECT_EQ(records[0].id, "world of 4 float32 all_reduce 1024 B");
  EXPECT_EQ(*records[0].predicted, pricer.time(Bytes(1024)).value);
  EXPECT_EQ(records[0].measured->low, json["collectives"][0]["seconds"]["median"].get<double>());
  EXPECT_TRUE(std::all_of(records.begin(), records.end(), [](const Record& record) {
    return record.judged() || record.skip.text() == "groups that ran at the same time: 2 of them";
  }));
  EXPECT_EQ(std::count_if(records.begin(), records.end(), [](const Record& r) { return r.judged(); }), 28);
  EXPECT_THAT(of_kind(judged_in(json), Kind::collectives, Statistic::seconds_by_model), IsEmpty());
}

TEST(BenchResults, OfAMachineWithoutAProfileAreSkipped) {
  Json json = result_json("bench_mpi.json");
  json["hosts"] = result_json()["hosts"];  // cards that MPI did not use
  const std::vector<Record> skipped = of_kind(judged_in(json), Kind::collectives, Statistic::seconds);
  ASSERT_THAT(skipped, SizeIs(15));
  for (const Record& record : skipped)
    EXPECT_EQ(record.skip.text(), "no profile of this machine: zplan hardware import");
  for (const Record& record : of_kind(judged_in(json, "generic"), Kind::collectives, Statistic::seconds))
    EXPECT_TRUE(record.judged());
}

TEST(BenchResults, ThatWereStoppedSaySo) {
  const std::vector<Case> cases = cases_in(result_json("bench_mpi.json"));
  ASSERT_THAT(cases.front().notes, SizeIs(1));
  EXPECT_EQ(cases.front().notes.front(), "not complete: the budget of 60 s is used up");
  EXPECT_THAT(cases_in(result_json()).front().notes, IsEmpty());
}

TEST(BenchResults, ThatContradictThemselvesHaveFlaws) {
  Json json = result_json();
  EXPECT_THAT(cases_in(json).front().flaws, IsEmpty());
  json["collectives"][3]["seconds"]["median"] = 1.0;
  EXPECT_THAT(cases_in(json).front().flaws,
              ::testing::Contains(HasSubstr("collectives[3].seconds.median: 1, ")));
}

TEST(Replays, EqualThePlanCallForCall) {
  const std::vector<Record> kinds = of_kind(judged_in(result_json()), Kind::schedule, Statistic::schedule);
  ASSERT_THAT(kinds, SizeIs(3));
  for (const Record& record : kinds) {
    EXPECT_TRUE(record.exact) << record.id;
    EXPECT_EQ(record.failure, "");
  }
  EXPECT_EQ(kinds[0].id, "replay: all_gather, data, 4 ranks, forward, bfloat16, layer weights");
  EXPECT_EQ(*kinds[0].predicted, 6);
}

struct Doctored {
  const char* name;
  void (*change)(Json& calls);
  const char* says;
};
void PrintTo(const Doctored& each, std::ostream* out) { *out << each.name; }

class DoctoredReplay : public ::testing::TestWithParam<Doctored> {};

TEST_P(DoctoredReplay, Fails) {
  Json json = result_json();
  GetParam().change(json["replay"]["calls"]);
  const std::vector<std::string> failures = failures_in(json);
  ASSERT_FALSE(failures.empty());
  EXPECT_THAT(failures.front(), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    OneFigure, DoctoredReplay,
    ::testing::Values(Doctored{"Count", [](Json& calls) { calls[0]["count"] = 5; },
                               "all_gather, data, 4 ranks, forward, bfloat16, layer weights: planned 6 "
                               "calls, 18874368 elements, "
                               "37748736 B; counted 5 calls"},
                      Doctored{"Elements", [](Json& calls) { calls[1]["elements"] = 16777217; },
                               "counted 1 calls, 16777217 elements"},
                      Doctored{"Bytes", [](Json& calls) { calls[1]["bytes"] = 1; },
                               "33554432 B; counted 1 calls, 16777216 elements, 1 B"},
                      Doctored{"Dtype", [](Json& calls) { calls[2]["dtype"] = "float16"; },
                               "all_reduce, data, 4 ranks, step, float32, gradient norm: planned 1 calls, 1 "
                               "elements, 4 B; counted none"},
                      Doctored{"Stride", [](Json& calls) { calls[2]["stride"] = 2; }, "counted none"},
                      Doctored{"Group", [](Json& calls) { calls[2]["group_size"] = 2; }, "counted none"},
                      Doctored{"Phase", [](Json& calls) { calls[2]["phase"] = "forward"; }, "counted none"},
                      Doctored{"Operation", [](Json& calls) { calls[2]["operation"] = "broadcast"; },
                               "counted none"},
                      Doctored{"Dropped", [](Json& calls) { calls.erase(1); }, "counted none"},
                      Doctored{"Added",
                               [](Json& calls) {
                                 calls.push_back(calls[0]);
                                 calls.back()["purpose"] = "something else";
                               },
                               "something else: planned none; counted 6 calls"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Replays, OfWhichTheErrorIsOfTheFirstFigureThatDiffers) {
  Json json = result_json();
  json["replay"]["calls"][0]["count"] = 8;
  const std::vector<Record> records = of_kind(judged_in(json), Kind::schedule, Statistic::schedule);
  EXPECT_DOUBLE_EQ(*records[0].error, -0.25);
  json["replay"]["calls"][0]["count"] = 6;
  json["replay"]["calls"][0]["bytes"] = 2 * 37748736;
  EXPECT_DOUBLE_EQ(*of_kind(judged_in(json), Kind::schedule, Statistic::schedule)[0].error, -0.5);
}

TEST(Replays, AreHeldAgainstTheTimesOfThePlan) {
  Json json = result_json();
  const Json& plan = json["replay"]["plan"];
  std::vector<Record> times = of_kind(judged_in(json), Kind::schedule, Statistic::seconds);
  ASSERT_THAT(times, SizeIs(4));
  EXPECT_NEAR(*times[0].predicted, 4 * 1e-4 + 2 * 5e-5, 1e-12);
  EXPECT_NEAR(*times[0].error, 1 / 1.1 - 1, 1e-9);
  EXPECT_EQ(times[3].id, "replay: whole step");
  EXPECT_EQ(*times[3].predicted, plan["communication_seconds"].get<double>());
  EXPECT_EQ(times[3].measured->low, json["replay"]["seconds"]["median"].get<double>());

  json["replay"]["compute_stand_in"] = true;
  times = of_kind(judged_in(json), Kind::schedule, Statistic::seconds);
  EXPECT_EQ(*times[3].predicted, plan["step_seconds"].get<double>());

  json["replay"]["plan"]["offload_seconds"] = 0.5;
  times = of_kind(judged_in(json), Kind::schedule, Statistic::seconds);
  EXPECT_THAT(times[3].skip.text(), HasSubstr("offload"));
}

TEST(Replays, OfKindsThatWereNotTimedHaveNoTime) {
  Json json = result_json();
  json["replay"]["calls"][0]["seconds"] = nullptr;
  EXPECT_THAT(of_kind(judged_in(json), Kind::schedule, Statistic::seconds), SizeIs(3));
}

}  // namespace
}  // namespace zplan::check::testing
