// `zplan hardware import`, and `zplan check` of the benchmark's results. The samples are made up
// (tests/check/samples/make_bench.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kImportSamples = std::string(ZPLAN_SOURCE) + "/tests/check/samples/";
const std::string kNccl = kImportSamples + "bench_nccl.json", kMpi = kImportSamples + "bench_mpi.json";

json nccl_result() { return json::parse(read_text(kNccl)); }

TEST(HardwareImport, PrintsAProfileAndNotesWhatIsLeftOut) {
  const Result result = in_process({"hardware", "import", kNccl});
  EXPECT_EQ(result.status, kFits);
  const json profile = json::parse(result.out);
  EXPECT_EQ(profile.at("schema"), "zplan.gpu/1");
  EXPECT_EQ(profile.at("name"), "H100-SXM-80GB-measured");
  EXPECT_EQ(profile.at("collectives")[0].at("points").size(), 8U);
  EXPECT_TRUE(profile.at("collectives")[0].contains("fit"));
  EXPECT_THAT(result.err, HasSubstr("zplan: note: all_reduce of 2 ranks (tensor) is left out"));
  EXPECT_THAT(result.err, HasSubstr("TFLOP/s: matrix_efficiency stays"));
  EXPECT_THAT(result.err, HasSubstr("a profile holds no storage"));
}

TEST(HardwareImport, WritesAFileThatGpuTakesAndCheckHolds) {
  const Folder folder;
  const std::string file = folder.path("mine.json");
  const Result written = in_process({"hardware", "import", kNccl, "-o", file, "--name", "mine"});
  EXPECT_EQ(written.status, kFits);
  EXPECT_EQ(written.out, "");
  EXPECT_THAT(written.err, HasSubstr("wrote " + file));
  EXPECT_EQ(json::parse(read_text(file)).at("name"), "mine");
  // Only the profile is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);

  const Result planned = in_process({"--model", "8B", "--gpus", "4", "--gpu", file, "--zero", "3", "--json"});
  EXPECT_EQ(json::parse(planned.out).at("cluster").at("gpu"), "mine");

  const Result checked = in_process({"check", kNccl, "--gpu", file, "--tolerance", "0.1", "--json"});
  const json report = json::parse(checked.out);
  EXPECT_EQ(checked.status, kFits) << checked.out.substr(0, 2000);
  for (const json& record : report.at("records"))
    // In place at 1 MiB lies between two sizes of the curve.
    if (record.at("kind") == "collectives" && !record.at("error").is_null() &&
        record.at("id").get<std::string>().find("in place") == std::string::npos) {
      EXPECT_NEAR(record.at("error").get<double>(), 0, 1e-9) << record;
    }
}

TEST(HardwareImport, ShowsTheLinesOfAProfile) {
  const Folder folder;
  const std::string file = folder.path("mine.json");
  (void)in_process({"hardware", "import", kNccl, "--output", file});
  const std::string shown = in_process({"hardware", "show", file}).out;
  EXPECT_THAT(shown, HasSubstr("curve: all_reduce, 4 GPUs, nvswitch"));
  EXPECT_THAT(shown, HasSubstr("8 sizes: latency 15"));
  EXPECT_THAT(shown, HasSubstr("zplan-bench 0.1.0"));
}

TEST(HardwareImport, TakesABaseANodeAndANetwork) {
  const Result result = in_process(
      {"hardware", "import", kMpi, "--gpu", "L40S-48GB", "--node", "pcie-no-p2p", "--network", "25g"});
  const json profile = json::parse(result.out);
  EXPECT_EQ(profile.at("name"), "L40S-48GB-measured");
  EXPECT_EQ(profile.at("usual_node"), "pcie-no-p2p");
  EXPECT_EQ(profile.at("collectives")[0].at("fabric"), "pcie-no-p2p");
  EXPECT_EQ(profile.at("usual_network"), "25g");
}

TEST(HardwareImport, EndsInOneLineWhereItCannot) {
  const Folder folder;
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"hardware", "import"}, "hardware import: no file"},
      {{"hardware", "import", folder.path("none.json")}, folder.path("none.json")},
      {{"hardware", "import", kImportSamples + "deepspeed.log"}, "no measurement of collectives"},
      {{"hardware", "import", kNccl, kMpi}, "of one kind of GPU"},
      {{"hardware", "import", kNccl, "--gpu", "H10000"}, "--gpu: \"H10000\""},
      {{"hardware", "import", kNccl, "--node", "rack"}, "--node: \"rack\""},
      {{"hardware", "import", kMpi, "--gpu", "L40S-48GB", "--node", "nvswitch"}, "L40S-48GB has no NVLink"},
      {{"hardware", "import", kNccl, "--network", "pigeon"}, "--network: \"pigeon\""},
      {{"hardware", "import", kNccl, "--name", "a/b"}, "--name: \"a/b\""},
      {{"hardware", "import", kNccl, "--output", folder.path("no/such/folder.json")}, "--output: "},
      {{"hardware", "import", kNccl, "--output", folder.path()}, "it is a folder"},
      {{"hardware", "import", kNccl, "--json"}, "--json: not an option of hardware import"},
      {{"hardware", "import", kNccl, "--gpus", "4"}, "--gpus: not an option of hardware import"},
      {{"hardware", "list", "--output", "x"}, "--output: not an option of hardware"},
      {{"hardware", "list", "--gpu", "x"}, "--gpu: not an option of hardware"},
      {{"--model", "8B", "--name", "x"}, "--name: not an option of plan"},
      {{"hardware", "imprt"}, "import"}};
  for (const auto& [arguments, says] : wrong) {
    const Result result = in_process(arguments);
    EXPECT_EQ(result.status, kBadInput) << says;
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(result.out, "") << says;
  }
}

TEST(CheckOfBench, HoldsWhereEverythingFollows) {
  const Result result = in_process({"check", kNccl});
  EXPECT_EQ(result.status, kFits);
  EXPECT_THAT(result.out, HasSubstr("replay: whole step"));
  EXPECT_THAT(result.out, HasSubstr("groups that ran at the same time"));
  EXPECT_THAT(result.out, Not(HasSubstr("fails:")));
}

TEST(CheckOfBench, NotesThatAResultIsNotComplete) {
  const Result result = in_process({"check", kMpi});
  EXPECT_EQ(result.status, kFits);
  EXPECT_THAT(result.err, HasSubstr("bench_mpi.json is not complete: the budget of 60 s is used up"));
  EXPECT_THAT(result.out, HasSubstr("no profile of this machine: zplan hardware import"));
}

TEST(CheckOfBench, KeepsTheTolerance) {
  EXPECT_EQ(in_process({"check", kMpi, "--tolerance", "0.5"}).status, kFits);
  const Result result = in_process({"check", kMpi, "--tolerance", "0.05"});
  EXPECT_EQ(result.status, kNothingFits);
  EXPECT_THAT(result.out, HasSubstr("median beyond 5.00 %: schedule seconds"));
}

struct Doctored {
  const char* name;
  const char* pointer;
  json value;
  const char* says;
};
void PrintTo(const Doctored& each, std::ostream* out) { *out << each.name; }

class DoctoredResult : public ::testing::TestWithParam<Doctored> {};

/// One figure that was changed is enough, whatever the tolerance.
TEST_P(DoctoredResult, FailsTheCheck) {
  json result = nccl_result();
  result.at(json::json_pointer(GetParam().pointer)) = GetParam().value;
  const Folder folder;
  const std::string file = folder.write("result.json", result.dump());
  const Result text = in_process({"check", file});
  EXPECT_EQ(text.status, kNothingFits);
  EXPECT_THAT(text.out, HasSubstr("\nfails: " + file + ": "));
  EXPECT_THAT(text.out, HasSubstr(GetParam().says));
  const Result tolerant = in_process({"check", file, "--tolerance", "100%", "--json"});
  EXPECT_EQ(tolerant.status, kNothingFits);
  EXPECT_FALSE(json::parse(tolerant.out).at("holds").get<bool>());
  EXPECT_FALSE(json::parse(tolerant.out).at("failures").empty());
}

INSTANTIATE_TEST_SUITE_P(
    OneFigure, DoctoredResult,
    ::testing::Values(
        Doctored{"ACount", "/replay/calls/0/count", 7, "planned 6 calls"},
        Doctored{"Bytes", "/replay/calls/0/bytes", 7, "counted 6 calls, 18874368 elements, 7 B"},
        Doctored{"ADtype", "/replay/calls/0/dtype", "float16", "counted none"},
        Doctored{"ATime", "/collectives/4/seconds/median", 1e-9,
                 "collectives[4].seconds.median: 1e-09, its samples give"},
        Doctored{"ASample", "/collectives/4/samples/0", 1.0, "collectives[4].seconds.highest"},
        Doctored{"ABandwidth", "/collectives/4/bus_bandwidth", 1e12, "collectives[4].bus_bandwidth: 1e+12"},
        Doctored{"ASize", "/collectives/4/bytes", 4096, "collectives[4].bytes: 4096"},
        Doctored{"WrongElements", "/collectives/4/wrong_elements", 1, "elements came out wrong"},
        Doctored{"AStep", "/replay/steps/1", 1.0, "replay.seconds.highest"},
        Doctored{"APlannedTime", "/replay/plan/calls/0/seconds", 1.0, "replay.plan.communication_seconds"},
        Doctored{"APlannedSize", "/replay/plan/calls/0/elements", 5, "replay.plan.calls[0].bytes"},
        Doctored{"TheDevice", "/replay/device_memory/holds", false, "the device did not hold them"},
        Doctored{"TheRanks", "/replay/every_rank_alike", false, "ranks did not issue the same calls"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(CheckOfBench, FailsWhereACallIsDroppedOrAdded) {
  const Folder folder;
  json dropped = nccl_result(), added = nccl_result();
  dropped["replay"]["calls"].erase(1);
  added["replay"]["calls"].push_back(added["replay"]["calls"][1]);
  for (const json& result : {dropped, added})
    EXPECT_EQ(in_process({"check", folder.write("result.json", result.dump())}).status, kNothingFits);
}

}  // namespace
}  // namespace zplan::test
