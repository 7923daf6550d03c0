// Results of the benchmark: what is read, and what contradicts itself. The samples are made up
// (tests/check/samples/make_bench.py).

#include "hardware_profiles/bench_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/mutated.h"

namespace zplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string sample(const std::string& name) {
  return read_file(std::string(ZPLAN_TEST_DATA) + "/check/samples/" + name);
}
Json sample_json(const std::string& name = "bench_nccl.json") { return parse_json(sample(name), name); }
BenchResult result_of(const Json& json) { return read_bench_result(JsonReader(json, "result")); }

/// Returns the flaws that reading a result with one changed value finds.
std::vector<std::string> flaws_with(const std::string& pointer, const Json& value) {
  Json json = sample_json();
  json.at(Json::json_pointer(pointer)) = value;
  return result_of(json).flaws;
}

TEST(TimeStatistics, LieStraightBetweenSamples) {
  const TimeStatistics of = statistics_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(of.median.value, 2.5);
  EXPECT_DOUBLE_EQ(of.p10.value, 1.3);  // index 0.3
  EXPECT_DOUBLE_EQ(of.p90.value, 3.7);
  EXPECT_DOUBLE_EQ(of.lowest.value, 1);
  EXPECT_DOUBLE_EQ(of.highest.value, 4);
  EXPECT_DOUBLE_EQ(of.mean.value, 2.5);
  EXPECT_EQ(statistics_of({5}),
            (TimeStatistics{Seconds(5), Seconds(5), Seconds(5), Seconds(5), Seconds(5), Seconds(5)}));
}

TEST(BenchResult, HoldsWhatTheFileSays) {
  const BenchResult result = result_of(sample_json());
  EXPECT_EQ(result.library, "NCCL 2.28.9");
  EXPECT_EQ(result.backend, BenchBackend::nccl);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(card_of(result, "result"), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(result.hosts.front().links.size(), 6U);
  ASSERT_EQ(result.collectives.size(), 29U);
  const BenchCollective& first = result.collectives.front();
  EXPECT_EQ(first.operation, Operation::all_reduce);
  EXPECT_EQ(first.ranks, 4);
  EXPECT_EQ(first.bytes, Bytes(1024));
  EXPECT_EQ(first.samples.size(), 7U);
  EXPECT_EQ(result.copies.size(), 6U);
  EXPECT_EQ(result.compute.size(), 2U);
  ASSERT_TRUE(result.replay);
  EXPECT_EQ(result.replay->planned.size(), 3U);  // five calls of three kinds
  EXPECT_EQ(result.replay->planned.front().count, 6);
  EXPECT_EQ(result.replay->planned.front().elements, 4 * 4194304 + 2 * 1048576);
  EXPECT_THAT(result.flaws, IsEmpty());
}

TEST(BenchResult, SaysWhyItIsNotComplete) {
  const BenchResult result = result_of(sample_json("bench_mpi.json"));
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.stopped, "the budget of 60 s is used up");
  EXPECT_EQ(card_of(result, "result"), "");
  EXPECT_THAT(result.flaws, IsEmpty());
}

TEST(BenchResult, StatisticsFollowFromSamples) {
  for (const char* key : {"median", "p10", "p90", "lowest", "highest", "mean"}) {
    const std::string place = std::string("/collectives/3/seconds/") + key;
    const double value = sample_json().at(Json::json_pointer(place)).get<double>();
    EXPECT_THAT(flaws_with(place, value * 1.001),
                ::testing::Contains(HasSubstr(std::string("collectives[3].seconds.") + key + ": ")))
        << key;
    EXPECT_THAT(flaws_with(place, value * (1 + 1e-8)), IsEmpty()) << key;
  }
  EXPECT_THAT(flaws_with("/replay/seconds/median", 1.0),
              ElementsAre(HasSubstr("replay.seconds.median: 1, its samples give 0.00")));
  EXPECT_THAT(flaws_with("/copies/1/seconds/lowest", 1.0), ElementsAre(HasSubstr("copies[1].seconds")));
}

TEST(BenchResult, FiguresFollowFromEachOther) {
  EXPECT_THAT(
      flaws_with("/collectives/5/algorithm_bandwidth", 1e12),
      ElementsAre(HasSubstr("collectives[5].algorithm_bandwidth: 1e+12, bytes over seconds.median are")));
  EXPECT_THAT(flaws_with("/collectives/5/bus_bandwidth", 1e12), ElementsAre(HasSubstr("bus_bandwidth")));
  EXPECT_THAT(flaws_with("/collectives/5/iterations", 8),
              ElementsAre(HasSubstr("iterations: 8, its samples are 7")));
  EXPECT_THAT(flaws_with("/collectives/5/mean_over_ranks", 10.0), ElementsAre(HasSubstr("mean_over_ranks")));
  EXPECT_THAT(flaws_with("/collectives/5/elements", 3), ElementsAre(HasSubstr("collectives[5].bytes")));
  EXPECT_THAT(flaws_with("/collectives/5/dtype", "float16"), ElementsAre(HasSubstr("collectives[5].bytes")));
  EXPECT_THAT(flaws_with("/copies/0/bytes_per_second", 1.0),
              ElementsAre(HasSubstr("copies[0].bytes_per_second")));
  EXPECT_THAT(flaws_with("/storage/0/bytes_per_second", 1.0), ElementsAre(HasSubstr("storage[0]")));
  EXPECT_THAT(flaws_with("/compute/0/flops_per_second", 1.0),
              ElementsAre(HasSubstr("compute[0].flops_per_second")));
  EXPECT_THAT(flaws_with("/compute/1/bytes_per_second", 1.0),
              ElementsAre(HasSubstr("compute[1].bytes_per_second")));
  EXPECT_THAT(flaws_with("/replay/plan/calls/0/bytes", 1),
              ElementsAre(HasSubstr("replay.plan.calls[0].bytes")));
  EXPECT_THAT(flaws_with("/replay/plan/communication_seconds", 1.0),
              ElementsAre(HasSubstr("replay.plan.communication_seconds: 1, its calls take")));
}

TEST(BenchResult, HoldsWhatWasSentWhereItWasCounted) {
  const BenchResult result = result_of(sample_json());
  EXPECT_FALSE(result.share_gpu);
  EXPECT_FALSE(result.collectives[3].sent);
  ASSERT_TRUE(result.collectives[4].sent);
  const BenchSent& sent = *result.collectives[4].sent;
  EXPECT_EQ(sent.interfaces, Bytes(5000));
  EXPECT_EQ(sent.ports, Bytes(8000));
  EXPECT_EQ(sent.bytes(), Bytes(8000));
  EXPECT_EQ(sent.calls, 7);
  Json json = sample_json();
  json["share_gpu"] = true;
  json["collectives"][4]["sent_bytes"] = {{"lo", 5000}, {"eth0", 4000}};
  EXPECT_TRUE(result_of(json).share_gpu);
  EXPECT_EQ(result_of(json).collectives[4].sent->bytes(), Bytes(9000));
  json["collectives"][4].erase("sent_calls");
  EXPECT_THROW((void)result_of(json), InputError);
  json["collectives"][4]["sent_calls"] = 7;
  json["collectives"][4]["sent_bytes"]["lo"] = -1;
  EXPECT_THROW((void)result_of(json), InputError);
  EXPECT_THAT(flaws_with("/collectives/4/sent_calls", 6),
              ElementsAre(HasSubstr("collectives[4].sent_calls: 6, its samples are 7")));
}

TEST(BenchResult, WrongElementsAndRanksThatDifferAreFlaws) {
  EXPECT_THAT(flaws_with("/collectives/2/wrong_elements", 3),
              ElementsAre("collectives[2].wrong_elements: 3 of 65536 elements came out wrong"));
  EXPECT_THAT(flaws_with("/replay/every_rank_alike", false), ElementsAre(HasSubstr("every_rank_alike")));
  EXPECT_THAT(flaws_with("/replay/device_memory/holds", false),
              ElementsAre(HasSubstr("replay.device_memory.holds: 3000000000 bytes were planned")));
  EXPECT_THAT(flaws_with("/replay/device_memory/planned_bytes", 1), ElementsAre(HasSubstr("planned_bytes")));
}

/// A ring of three ranks sends 2/3 of a size that three does not divide: whole bytes, or not.
TEST(BenchResult, ABusBandwidthMayBeRoundedToWholeBytes) {
  Json json = sample_json();
  Json& each = json["collectives"][0];
  each["group"]["size"] = 3, each["bytes"] = 4, each["elements"] = 1;
  const double median = each["seconds"]["median"].get<double>();
  each["algorithm_bandwidth"] = 4 / median;
  for (const double wire : {4.0, 16.0 / 3}) {
    each["bus_bandwidth"] = wire / median;
    EXPECT_THAT(result_of(json).flaws, IsEmpty()) << wire;
  }
}

TEST(BenchResult, WhatLacksOrIsOutOfRangeIsAnInputError) {
  for (const char* key :
       {"zplan_version", "command", "started", "complete", "backend", "library", "ranks", "nodes", "hosts"}) {
    Json json = sample_json();
    json.erase(key);
    EXPECT_THROW((void)result_of(json), InputError) << key;
  }
  for (const char* pointer : {"/collectives/0/operation", "/collectives/0/dtype", "/collectives/0/samples/0",
                              "/collectives/0/group/size", "/copies/0/direction", "/compute/0/kind",
                              "/hosts/0/links/0/kind", "/replay/plan/calls/0/times", "/replay/steps"}) {
    Json json = sample_json();
    json.at(Json::json_pointer(pointer)) = -1;
    EXPECT_THROW((void)result_of(json), InputError) << pointer;
  }
}

TEST(BenchResult, OfTwoKindsOfCardIsAnInputError) {
  Json json = sample_json();
  json["hosts"][0]["gpus"][1]["name"] = "NVIDIA L40S";
  EXPECT_THROW((void)card_of(result_of(json), "result"), InputError);
}

// A fixed seed: the same bytes every time.
TEST(BenchResult, MutatedIsReadOrAnInputError) {
  const std::vector<std::string> words{"-", "0", "9", "null", "true",  "\"", "[", "]",
                                       "{", "}", ",", "e9",   "1e300", "{}", "[]"};
  std::mt19937 random(20'261'122);
  const std::vector<std::string> documents{sample("bench_nccl.json"), sample("bench_mpi.json")};
  int read = 0, errors = 0, flawed = 0;
  for (int round = 0; round < 1'500; ++round) {
    const std::string text = mutated(documents[static_cast<std::size_t>(round) % 2], words, random);
    try {
      const Json json = parse_json(text, "file");
      ++read, flawed += result_of(json).flaws.empty() ? 0 : 1;
    } catch (const InputError& error) {
      ++errors;
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << text;
    }
  }
  EXPECT_GT(read, 200);
  EXPECT_GT(errors, 200);
  EXPECT_GT(flawed, 100);
}

}  // namespace
}  // namespace zplan
