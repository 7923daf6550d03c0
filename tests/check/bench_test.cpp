// Results of the benchmark against the plan and the pricer. The samples are made up (samples/make_bench.py);
// what is changed in them is one figure each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/collective_cost.h"
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
  json["hosts"] = result_json()["hosts"];  // GPUs that MPI did not use
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

constexpr std::int64_t k4MiB = 4 << 20;

/// The sample as four ranks on one GPU: entry 4 is an all_reduce of 4 MiB, 7 calls, that sent `bytes`.
Json shared_json(std::int64_t bytes, const std::string& operation = "all_reduce") {
  Json json = result_json();
  json["share_gpu"] = true;
  for (Json& each : json["collectives"]) each.erase("sent_bytes"), each.erase("sent_calls");
  Json& each = json["collectives"][4];
  each["operation"] = operation;
  each["sent_bytes"] = {{"lo", bytes}, {"eth0", 1}}, each["sent_calls"] = 7;
  return json;
}
std::vector<Record> sent_in(const Json& json) {
  return of_kind(judged_in(json), Kind::collectives, Statistic::sent);
}

/// Worked by hand: n ranks, each with all of the message, S, or its share of it. A ring's all_reduce sends
/// 2(n-1)/n of S from each rank, a tree 2(n-1) times S in all: the same.
TEST(Sent, IsWhatEachOperationSendsBetweenHosts) {
  const std::map<std::string, std::int64_t> of_all{{"all_reduce", 6 * k4MiB},     {"all_gather", 3 * k4MiB},
                                                   {"reduce_scatter", 3 * k4MiB}, {"broadcast", 3 * k4MiB},
                                                   {"reduce", 3 * k4MiB},         {"all_to_all", 3 * k4MiB},
                                                   {"send_recv", 4 * k4MiB}};
  for (const auto& [operation, bytes] : of_all) {
    const std::vector<Record> records = sent_in(shared_json(7 * bytes, operation));
    ASSERT_THAT(records, SizeIs(1));
    EXPECT_EQ(*records[0].predicted, static_cast<double>(7 * bytes)) << operation;
    EXPECT_NEAR(*records[0].error, 0, 1e-7) << operation;
    EXPECT_THAT(records[0].part, ::testing::EndsWith(" Simple")) << operation;
  }
  EXPECT_EQ(sent_in(shared_json(1)).front().id, "world of 4 float32 all_reduce 4194304 B");
}

TEST(Sent, HalfOfItIsTwiceTooMuchForetold) {
  EXPECT_NEAR(*sent_in(shared_json(7 * 3 * k4MiB)).front().error, 1, 1e-6);
}

TEST(Sent, ProtocolsSendTheirFlagsToo) {
  std::set<std::string> ways;
  for (const char* network : {"400g", "tcp"})
    for (const std::int64_t nodes : {2, 16}) {
      const Cluster sixteen = assemble_cluster({.gpu = "H100-SXM-80GB",
                                                .memory = {},
                                                .gpus = 16,
                                                .nodes = nodes,
                                                .network = network,
                                                .host_memory = {}},
                                               built_in_profiles());
      for (Bytes size = kKiB; size <= kGiB; size = size * 2) {
        const SentPrediction sent = predict_sent(sixteen, Operation::all_gather, size, 3);
        // One of the ring's edges leaves each node, and carries all but one share.
        const double data = 3.0 * 15 / 16 * static_cast<double>(nodes * size.value);
        const bool by_ll128 = sent.way.ends_with(" LL128"), by_ll = sent.way.ends_with(" LL");
        EXPECT_NEAR(static_cast<double>(sent.bytes.value),
                    data * (by_ll      ? 2
                            : by_ll128 ? 16.0 / 15
                                       : 1),
                    64.0)
            << sent.way;
        ways.insert(sent.way);
      }
    }
  EXPECT_THAT(ways, ::testing::IsSupersetOf({"ring LL", "ring LL128", "ring Simple"}));
}

TEST(Sent, OfNodesIsWhatLeavesThem) {
  Json json = shared_json(1);
  json["share_gpu"] = false;
  json["collectives"][4]["nodes"] = 2;
  const Record record = sent_in(json).front();
  // With two nodes of two GPUs, a ring sends 2·3/4·S out of each node, and a tree S up and S down.
  const double ring = 7 * 2 * 1.5 * k4MiB, tree = 7 * 2.0 * k4MiB;
  EXPECT_THAT(*record.predicted, ::testing::AnyOf(ring, tree, ::testing::DoubleNear(ring * 16 / 15, 8),
                                                  ::testing::DoubleNear(tree * 16 / 15, 8)))
      << record.part;
}

TEST(Sent, IsNotJudgedWhereNothingSaysWhatItShouldBe) {
  EXPECT_THAT(sent_in(result_json()), IsEmpty());  // one node: what is sent stays inside
  Json json = shared_json(1);
  json["backend"] = "mpi";
  EXPECT_THAT(sent_in(json), IsEmpty());  // algorithms of its own
  json = shared_json(1);
  json["collectives"][4]["group"]["at_once"] = 2;
  EXPECT_THAT(sent_in(json), IsEmpty());
  json = shared_json(1);
  std::swap(json["collectives"][4]["sent_bytes"], json["collectives"][3]["sent_bytes"]);
  json["collectives"][4].erase("sent_bytes");
  json["collectives"][3]["sent_calls"] = 7;
  EXPECT_THAT(sent_in(json), IsEmpty());  // 512 KiB
  json = shared_json(1);
  for (Json& gpu : json["hosts"][0]["gpus"]) gpu["name"] = "Nobody's GPU";
  EXPECT_THAT(sent_in(json).front().skip.text(), HasSubstr("no profile of this machine"));
}

TEST(BenchResults, OfRanksThatShareACardHaveNoTimes) {
  for (const Record& record : of_kind(judged_in(shared_json(1)), Kind::collectives, Statistic::seconds))
    EXPECT_FALSE(record.judged()) << record.id;
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
