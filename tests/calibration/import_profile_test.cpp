// Measurements as a profile: what was measured is what a plan is priced by.

#include "planner/calibration/import_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/collective_cost.h"
#include "hardware_profiles/profiles.h"
#include "tests/check/support.h"

namespace zplan::check::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Json imported_json(const std::string& name = "bench_nccl.json") { return parse_json(sample(name), name); }
Document document_of(const Json& json) { return recognised(json.dump(), "result.json"); }
ImportRequest request(const std::string& gpu = {}) {
  return {.hardware = built_in_profiles(), .gpu = gpu, .node = {}, .network = {}, .name = {}};
}
ImportedProfile imported(const Json& json, const ImportRequest& wanted = request()) {
  return import_profile({document_of(json)}, wanted);
}
/// Writes a GPU and reads it, as --gpu FILE does.
Gpu written_and_read(const Gpu& gpu) {
  const Json json = write_gpu(gpu);
  return read_profiles(JsonReader(json, "profile")).gpus.at(0);
}
Cluster cluster_of(const Gpu& gpu, std::int64_t gpus, std::int64_t nodes = 1) {
  const HardwareProfiles profiles =
      merge_profiles(built_in_profiles(), {.gpus = {gpu}, .nodes = {}, .networks = {}});
  return assemble_cluster({.gpu = gpu.name,
                           .memory = {},
                           .gpus = gpus,
                           .nodes = nodes,
                           .node = {},
                           .network = {},
                           .host_memory = {}},
                          profiles);
}

TEST(ImportedProfiles, PriceWhatWasMeasuredAsItWasMeasured) {
  for (const char* name : {"bench_nccl.json", "bench_mpi.json"}) {
    const Json json = imported_json(name);
    const Gpu gpu = written_and_read(imported(json).gpu);
    int priced = 0;
    for (const Json& each : json["collectives"]) {
      if (each["in_place"].get<bool>() || each["group"]["at_once"] != 1) continue;
      const Cluster cluster = cluster_of(gpu, each["group"]["size"].get<std::int64_t>());
      const auto operation = parse_name<Operation>("operation", each["operation"].get<std::string>());
      const CollectivePricer pricer(cluster, operation, place_of_all(cluster));
      const double median = each["seconds"]["median"].get<double>();
      EXPECT_NEAR(pricer.time(Bytes(each["bytes"].get<std::int64_t>())).value, median, 1e-9 * median)
          << each["bytes"];
      EXPECT_THAT(pricer.source(), HasSubstr("zplan-bench 0.1.0 at 2026-01-01T00:00:00Z"));
      ++priced;
    }
    EXPECT_EQ(priced, json["collectives"].size() == 29 ? 27 : 15);
  }
}

TEST(ImportedProfiles, SayWhereTheirFiguresAreFrom) {
  const Gpu gpu = imported(imported_json()).gpu;
  EXPECT_EQ(gpu.name, "H100-SXM-80GB-measured");
  const std::string source =
      "zplan-bench 0.1.0 at 2026-01-01T00:00:00Z, NCCL 2.28.9, driver 580.65.06, CUDA 13.0, host made-up: "
      "zplan-bench "
      "--backend nccl";
  EXPECT_EQ(gpu.collectives.front().source, source);
  EXPECT_THAT(gpu.sources.at("pcie_effective_gb_per_s_per_direction"), HasSubstr(source));
  EXPECT_EQ(gpu.sources.at("memory_mib"),
            find_gpu(built_in_profiles(), "H100-SXM-80GB").sources.at("memory_mib"));
}

TEST(ImportedProfiles, HaveTheLineThroughEachCurve) {
  const Gpu gpu = imported(imported_json()).gpu;
  ASSERT_TRUE(gpu.collectives.front().fit);
  EXPECT_NEAR(gpu.collectives.front().fit->latency.value, 15e-6, 0.02 * 15e-6);
  EXPECT_NEAR(gpu.collectives.front().fit->bus_bandwidth.value, 340e9, 0.02 * 340e9);
}

TEST(ImportedProfiles, KeepWhatWasNotMeasured) {
  const Gpu base = find_gpu(built_in_profiles(), "H100-SXM-80GB"), gpu = imported(imported_json()).gpu;
  EXPECT_EQ(gpu.memory, base.memory);
  EXPECT_EQ(gpu.efficiency, base.efficiency);
  EXPECT_EQ(gpu.pcie, base.pcie);
  EXPECT_EQ(gpu.usual_node, base.usual_node);
  // Curves across nodes stay, those inside a node of operations that were measured do not.
  std::size_t across = 0;
  for (const CollectiveCurve& curve : gpu.collectives) {
    const bool here = curve.source.starts_with("zplan-bench");
    EXPECT_TRUE(here || curve.nodes > 1 ||
                (curve.operation != Operation::all_reduce && curve.operation != Operation::all_gather &&
                 curve.operation != Operation::reduce_scatter))
        << curve.source;
    across += curve.nodes > 1 ? 1 : 0;
  }
  EXPECT_GT(across, 0U);
  EXPECT_EQ(gpu.collectives_as, "");
}

TEST(ImportedProfiles, LeaveOutGroupsThatSharedTheMachines) {
  const ImportedProfile made = imported(imported_json());
  EXPECT_THAT(made.notes,
              Contains("all_reduce of 2 ranks (tensor) is left out: 2 such groups ran at the same time"));
  for (const CollectiveCurve& curve : made.gpu.collectives)
    if (curve.gpus == 2 && curve.source.starts_with("zplan-bench")) {
      EXPECT_EQ(curve.points.size(), 3U);
    }
}

TEST(ImportedProfiles, LeaveOutRanksThatSharedAGpu) {
  Json json = imported_json();
  json["share_gpu"] = true;
  const ImportedProfile made = imported(json);  // of copies and products alone
  EXPECT_THAT(made.notes, Contains("all_reduce of 4 ranks (world) is left out: ranks shared GPUs"));
  for (const CollectiveCurve& curve : made.gpu.collectives)
    EXPECT_FALSE(curve.source.starts_with("zplan-bench"));
}

TEST(ImportedProfiles, TakeWhatIsInPlaceWhereThereIsNoOther) {
  Json json = imported_json("bench_mpi.json");
  for (Json& each : json["collectives"])
    if (each["operation"] == "broadcast") each["in_place"] = true;
  Json other = json["collectives"][0];
  other["in_place"] = true, other["bytes"] = 128, other["elements"] = 32;
  const double median = other["seconds"]["median"].get<double>();
  other["algorithm_bandwidth"] = 128 / median, other["bus_bandwidth"] = 192 / median;
  json["collectives"].push_back(other);
  const std::vector<CollectiveCurve> curves = imported(json).gpu.collectives;
  ASSERT_EQ(curves.size(), 3U);
  EXPECT_EQ(curves[2].operation, Operation::broadcast);
  EXPECT_EQ(curves[2].points.size(), 5U);
  EXPECT_EQ(curves[0].points.size(), 5U);  // not the one in place
}

TEST(ImportedProfiles, TakeTheSlowerDirectionOfPinnedCopies) {
  const ImportedProfile made = imported(imported_json());
  EXPECT_NEAR(made.gpu.pcie_effective.value, 51e9, 0.02 * 51e9);
  EXPECT_THAT(made.notes, Not(Contains(HasSubstr("rated at: the rated speed"))));
}

TEST(ImportedProfiles, TakeNoMoreThanTheSlotIsRatedAt) {
  Json json = imported_json();
  for (Json& copy : json["copies"]) {
    for (Json& figure : copy["seconds"]) figure = 1e-3;
    copy["bytes"] = 100'000'000, copy["bytes_per_second"] = 100e9;
  }
  const ImportedProfile made = imported(json);
  EXPECT_EQ(made.gpu.pcie_effective, made.gpu.pcie);
  EXPECT_THAT(made.notes, Contains(HasSubstr("copies reach 100 GB/s, more than the 63")));
  EXPECT_EQ(written_and_read(made.gpu), made.gpu);
}

TEST(ImportedProfiles, ToldByLinksHaveAnotherNodeType) {
  Json json = imported_json();
  json["hosts"][0]["links"][2]["kind"] = "host";
  const Gpu gpu = imported(json).gpu;
  EXPECT_EQ(gpu.usual_node, "pcie-no-p2p");
  EXPECT_EQ(gpu.collectives.front().fabric, Fabric::pcie_host);
  EXPECT_THAT(gpu.sources.at("usual_node"), HasSubstr("the machine that was measured: zplan-bench"));
  ImportRequest asked = request();
  asked.node = "nvlink-bridge", asked.name = "my GPU";
  EXPECT_EQ(imported(json, asked).gpu.usual_node, "nvlink-bridge");
  EXPECT_EQ(imported(json, asked).gpu.name, "my GPU");
}

TEST(ImportedProfiles, AcrossNodesAreOfTheNetworkThatIsNamed) {
  Json json = imported_json();
  for (Json& each : json["collectives"])
    if (each["group"]["size"] == 4) each["nodes"] = 2;
  ImportRequest asked = request();
  asked.network = "100g";
  const Gpu gpu = written_and_read(imported(json, asked).gpu);
  EXPECT_EQ(gpu.collectives.front().network, "100g");
  EXPECT_EQ(gpu.usual_network, "100g");
  const Cluster cluster = cluster_of(gpu, 4, 2);
  EXPECT_NEAR(CollectivePricer(cluster, Operation::all_reduce, place_of_all(cluster)).time(Bytes(1024)).value,
              json["collectives"][0]["seconds"]["median"].get<double>(), 1e-12);
}

TEST(ImportedProfiles, OfNoCardAreTheGenericOnes) {
  const ImportedProfile made = imported(imported_json("bench_mpi.json"));
  EXPECT_EQ(made.gpu.name, "generic-measured");
  EXPECT_THAT(made.notes, Contains("no GPU is named: memory and rates are the generic GPU's (--gpu)"));
  EXPECT_THAT(made.notes, Contains("result.json is not complete: the budget of 60 s is used up"));
  EXPECT_THAT(made.notes, Contains("result.json timed MPI between the hosts' memory, not between GPUs"));
  EXPECT_EQ(imported(imported_json("bench_mpi.json"), request("L40S-48GB")).gpu.name, "L40S-48GB-measured");
}

TEST(ImportedProfiles, ComeOfNcclTestsLogs) {
  const ImportedProfile text =
      import_profile({recognised(sample("all_reduce.txt"), "all_reduce.txt")}, request());
  ASSERT_FALSE(text.gpu.collectives.empty());
  const CollectiveCurve& curve = text.gpu.collectives.front();
  EXPECT_EQ(curve.gpus, 4);
  EXPECT_EQ(curve.nodes, 2);
  ASSERT_EQ(curve.points.size(), 3U);
  EXPECT_EQ(curve.points[0], (CollectivePoint{Bytes(8), Seconds(26.5e-6)}));
  EXPECT_EQ(curve.source, "nccl-tests log all_reduce.txt, 4 x NVIDIA A100-SXM4-80GB on node1 node2");
  const ImportedProfile json =
      import_profile({recognised(sample("reduce_scatter.json"), "reduce_scatter.json")}, request());
  EXPECT_EQ(json.gpu.collectives.front().operation, Operation::reduce_scatter);
  EXPECT_THAT(json.gpu.collectives.front().source, HasSubstr("NCCL 2.27.3"));
  EXPECT_EQ(written_and_read(json.gpu), json.gpu);
}

TEST(ImportedProfiles, OfSeveralFilesHaveTheCurvesOfAll) {
  Json gathers = imported_json();
  gathers["collectives"] = Json::array({imported_json()["collectives"][8]});
  Json sums = imported_json();
  sums["collectives"] = Json::array({imported_json()["collectives"][0]});
  const ImportedProfile made = import_profile({document_of(gathers), document_of(sums)}, request());
  EXPECT_EQ(made.gpu.collectives[0].operation, Operation::all_gather);
  EXPECT_EQ(made.gpu.collectives[1].operation, Operation::all_reduce);
  EXPECT_THAT(import_profile({document_of(sums), document_of(sums)}, request()).notes,
              Contains(HasSubstr("all_reduce of 4 GPUs is there twice")));
}

std::string message_of_import(const std::vector<Document>& documents,
                              const ImportRequest& wanted = request()) {
  try {
    (void)import_profile(documents, wanted);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(ImportedProfiles, OfResultsThatContradictThemselvesAreNone) {
  Json json = imported_json();
  json["collectives"][3]["wrong_elements"] = 1;
  EXPECT_THAT(message_of_import({document_of(json)}), HasSubstr("collectives[3].wrong_elements: 1 of"));
  json = imported_json();
  json["collectives"][3]["seconds"]["median"] = 1e-9;
  EXPECT_THAT(message_of_import({document_of(json)}), HasSubstr("collectives[3].seconds.median"));
}

TEST(ImportedProfiles, OfOtherDocumentsAreAnInputError) {
  EXPECT_THAT(message_of_import({recognised(sample("deepspeed.log"), "a.log")}),
              HasSubstr("a.log: no measurement of collectives"));
  EXPECT_THAT(message_of_import({recognised("hello", "a.log")}), HasSubstr("no measurement of collectives"));
  EXPECT_THAT(message_of_import({document_of(imported_json()), document_of(imported_json("bench_mpi.json"))}),
              HasSubstr("one kind of GPU"));
  Json empty = imported_json();
  empty["collectives"] = empty["copies"] = Json::array();
  EXPECT_THAT(message_of_import({document_of(empty)}), HasSubstr("nothing that a profile holds"));
  ImportRequest asked = request();
  asked.name = "../profile";
  EXPECT_THAT(message_of_import({document_of(imported_json())}, asked), HasSubstr("--name: \"../profile\""));
}

TEST(OddPoints, AreTimesThatFallTenfold) {
  CollectiveCurve curve{.gpus = 4};
  curve.points = {{Bytes(8), Seconds(1e-4)}, {Bytes(16), Seconds(2e-5)}, {Bytes(32), Seconds(2e-6)}};
  const std::vector<std::string> odd = odd_points(curve);
  ASSERT_EQ(odd.size(), 1U);
  EXPECT_THAT(odd.front(), HasSubstr("16 B took"));
}

}  // namespace
}  // namespace zplan::check::testing
