// Reading profile files: what is accepted, what is refused and where the refusal points.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/profiles.h"

namespace zplan {
namespace {

const std::string kData = std::string(ZPLAN_TEST_DATA) + "/../hardware_profiles/";

Json file_json(const std::string& name) { return parse_json(read_file(kData + name), name); }

HardwareProfiles read(const Json& json) { return read_profiles(JsonReader(json, "my.json")); }

struct Breakage {
  std::string what;
  std::string file;
  std::function<void(Json&)> apply;
  std::string place;
};

const std::string kH100 = "gpus/h100-sxm-80gb.json", kNode = "nodes/pcie.json", kNet = "networks/8x400g.json";

std::vector<Breakage> breakages() {
  return {
      {"no schema", kH100, [](Json& j) { j.erase("schema"); }, "my.json"},
      {"other schema", kH100, [](Json& j) { j["schema"] = "zplan.gpu/2"; }, "my.json#/schema"},
      {"unknown key", kH100, [](Json& j) { j["memory_gb"] = 80; }, "my.json"},
      {"memory as text", kH100, [](Json& j) { j["memory_mib"] = "80GB"; }, "my.json#/memory_mib"},
      {"no memory", kH100, [](Json& j) { j["memory_mib"] = 0; }, "my.json#/memory_mib"},
      {"fraction of a MiB", kH100, [](Json& j) { j["memory_mib"] = 81559.5; }, "my.json#/memory_mib"},
      {"all memory reserved", kH100,
       [](Json& j) {
         j["driver_reserved_mib"] = 65536;
         j["memory_mib"] = 65536;
       },
       "my.json#/driver_reserved_mib"},
      {"negative bandwidth", kH100, [](Json& j) { j["memory_bandwidth_gb_per_s"] = -1; },
       "my.json#/memory_bandwidth_gb_per_s"},
      {"bytes, not gigabytes", kH100, [](Json& j) { j["memory_bandwidth_gb_per_s"] = 3.35e12; },
       "my.json#/memory_bandwidth_gb_per_s"},
      {"efficiency in percent", kH100, [](Json& j) { j["matrix_efficiency"] = 40; },
       "my.json#/matrix_efficiency"},
      {"no efficiency at all", kH100, [](Json& j) { j["matrix_efficiency"] = 0; },
       "my.json#/matrix_efficiency"},
      {"figure without source", kH100, [](Json& j) { j["sources"].erase("fp8_dense_tflops"); },
       "my.json#/sources"},
      {"source without figure", kH100, [](Json& j) { j["sources"]["vram"] = "box"; }, "my.json#/sources"},
      {"empty source", kH100, [](Json& j) { j["sources"]["memory_mib"] = ""; },
       "my.json#/sources/memory_mib"},
      {"rated NVLink alone", kH100,
       [](Json& j) {
         j.erase("nvlink_effective_gb_per_s_per_direction");
         j["sources"].erase("nvlink_effective_gb_per_s_per_direction");
       },
       "my.json"},
      {"more than rated", kH100, [](Json& j) { j["pcie_effective_gb_per_s_per_direction"] = 100; },
       "my.json#/pcie_effective_gb_per_s_per_direction"},
      {"capability as number", kH100, [](Json& j) { j["compute_capability"] = 9.0; },
       "my.json#/compute_capability"},
      {"capability of words", kH100, [](Json& j) { j["compute_capability"] = "sm_90"; },
       "my.json#/compute_capability"},
      {"unknown fabric", kH100, [](Json& j) { j["links"][0]["fabric"] = "nvlink"; },
       "my.json#/links/0/fabric"},
      {"link without source", kH100, [](Json& j) { j["links"][0].erase("source"); }, "my.json#/links/0"},
      {"links no list", kH100, [](Json& j) { j["links"] = Json::object(); }, "my.json#/links"},
      {"name with a line break", kH100, [](Json& j) { j["name"] = "H100\n"; }, "my.json#/name"},
      {"aliases no list", kH100, [](Json& j) { j["aliases"] = "h100"; }, "my.json#/aliases"},
      {"peer-to-peer as text", kH100, [](Json& j) { j["peer_to_peer"] = "yes"; }, "my.json#/peer_to_peer"},
      {"curve of unknown operation", kH100,
       [](Json& j) {
         j["collectives"] =
             Json::array({{{"operation", "allreduce"}, {"gpus", 8}, {"bytes", 8}, {"seconds", 1e-5}}});
       },
       "my.json#/collectives/0/operation"},
      {"curve with no time", kH100,
       [](Json& j) {
         j["collectives"] =
             Json::array({{{"operation", "all_reduce"}, {"gpus", 8}, {"bytes", 8}, {"seconds", 0}}});
       },
       "my.json#/collectives/0/seconds"},
      {"curve of no points", kH100,
       [](Json& j) {
         j["collectives"] =
             Json::array({{{"operation", "all_reduce"}, {"gpus", 8}, {"points", Json::array()}}});
       },
       "my.json#/collectives/0/points"},
      {"curve with half a point", kH100,
       [](Json& j) {
         j["collectives"] = Json::array(
             {{{"operation", "all_reduce"}, {"gpus", 8}, {"points", Json::array({Json::array({8})})}}});
       },
       "my.json#/collectives/0/points/0"},
      {"curve and point at once", kH100,
       [](Json& j) {
         j["collectives"] = Json::array({{{"operation", "all_reduce"},
                                          {"gpus", 8},
                                          {"bytes", 8},
                                          {"points", Json::array({Json::array({8, 1e-5})})}}});
       },
       "my.json#/collectives/0/bytes"},
      {"curve over nodes that do not divide the GPUs", kH100,
       [](Json& j) {
         j["collectives"] = Json::array({{{"operation", "all_reduce"},
                                          {"gpus", 8},
                                          {"nodes", 3},
                                          {"points", Json::array({Json::array({8, 1e-5})})}}});
       },
       "my.json#/collectives/0/nodes"},
      {"node of unknown fabric", kNode, [](Json& j) { j["fabric"] = "ethernet"; }, "my.json#/fabric"},
      {"node without host memory", kNode, [](Json& j) { j.erase("host_memory_gib"); }, "my.json"},
      {"ring faster than its link", kNode, [](Json& j) { j["link_fraction"] = 1.5; },
       "my.json#/link_fraction"},
      {"half a measurement", kNode,
       [](Json& j) {
         j["measured"] = {{"latency_us", 10}};
       },
       "my.json#/measured"},
      {"network in bits", kNet, [](Json& j) { j["nic_effective_gb_per_s_per_direction"] = 400; },
       "my.json#/nic_effective_gb_per_s_per_direction"},
      {"no NICs", kNet, [](Json& j) { j["nics_per_node"] = 0; }, "my.json#/nics_per_node"},
      {"not an object", kNet,
       [](Json& j) {
         j = Json::array({1, 2});
       },
       "my.json"},
  };
}

TEST(ReadProfiles, RefusesWhatIsBrokenAndPointsAtIt) {
  for (const Breakage& breakage : breakages()) {
    Json json = file_json(breakage.file);
    ASSERT_NO_THROW((void)read(json)) << breakage.file;
    breakage.apply(json);
    try {
      (void)read(json);
      ADD_FAILURE() << "accepted: " << breakage.what;
    } catch (const InputError& error) {
      EXPECT_EQ(error.place(), breakage.place) << breakage.what << ": " << error.what();
      EXPECT_FALSE(error.accepted().empty()) << breakage.what;
    }
  }
}

TEST(ReadProfiles, NoValueOfAnyFieldDoesMoreThanThrowInputError) {
  const std::vector<Json> values{nullptr,
                                 -1,
                                 0,
                                 1e308,
                                 "",
                                 "x",
                                 true,
                                 Json::array(),
                                 Json::object(),
                                 std::uint64_t{1} << 63,
                                 Json::array({nullptr}),
                                 Json{{"gpus", -5}}};
  int refused = 0;
  for (const std::string& file : {kH100, kNode, kNet}) {
    const Json whole = file_json(file);
    for (const auto& item : whole.items())
      for (const Json& value : values) {
        Json json = whole;
        json[item.key()] = value;
        try {
          (void)read(json);
        } catch (const InputError& error) {
          ++refused;
          EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        }
      }
  }
  EXPECT_GT(refused, 300);
}

TEST(ReadProfiles, CarriesUnitsOver) {
  const Gpu gpu = read(file_json(kH100)).gpus.at(0);
  EXPECT_EQ(gpu.memory, Bytes(81559 * std::int64_t{1048576}));  // as nvidia-smi prints it for this board
  EXPECT_DOUBLE_EQ(gpu.bf16.value().value, 989e12);
  EXPECT_DOUBLE_EQ(gpu.memory_bandwidth.value, 3350e9);
  const Network network = read(file_json(kNet)).networks.at(0);
  EXPECT_DOUBLE_EQ(network.nic.value * 8, 400e9);  // the line rate in bits that the profile is named for
  EXPECT_DOUBLE_EQ(network.per_node.value, 8 * network.per_nic.value);
}

TEST(ReadProfiles, ReadsMeasuredMachinesAndCurves) {
  Json json = file_json(kNode);
  json["name"] = "my-rig";
  json["measured"] = {
      {"all_reduce_bus_gb_per_s", 21.5}, {"all_gather_bus_gb_per_s", 20.25}, {"latency_us", 14}};
  json["collectives"] =
      Json::array({{{"operation", "all_gather"}, {"gpus", 4}, {"bytes", 1048576}, {"seconds", 9.3e-5}}});
  const Node node = read(json).nodes.at(0);
  ASSERT_TRUE(node.measured);
  EXPECT_DOUBLE_EQ(node.measured->all_gather.value, 20.25e9);
  ASSERT_EQ(node.collectives.size(), 1U);
  EXPECT_EQ(node.collectives[0].fabric, node.fabric);
  EXPECT_EQ(node.collectives[0].points, (std::vector<CollectivePoint>{{Bytes(1048576), Seconds(9.3e-5)}}));
}

/// One entry per curve or one per message size, in any order.
TEST(ReadProfiles, CurvesAreListsOrSinglePoints) {
  Json single = file_json(kNode), list = single;
  single["collectives"] =
      Json::array({{{"operation", "all_gather"}, {"gpus", 4}, {"bytes", 64}, {"seconds", 2e-5}},
                   {{"operation", "all_gather"}, {"gpus", 4}, {"bytes", 8}, {"seconds", 1e-5}}});
  list["collectives"] =
      Json::array({{{"operation", "all_gather"},
                    {"gpus", 4},
                    {"points", Json::array({Json::array({8, 1e-5}), Json::array({64, 2e-5})})}}});
  EXPECT_EQ(read(single).nodes, read(list).nodes);
  EXPECT_EQ(read(list).nodes.at(0).collectives.at(0).points.size(), 2U);
}

/// The example of docs/adding-a-gpu.md is what people copy.
TEST(ReadProfiles, TheExampleOfTheGuideIsAProfile) {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/../docs/adding-a-gpu.md";
  const std::string text = read_file(path);
  const std::size_t start = text.find("```json\n") + 8, end = text.find("```", start);
  ASSERT_LT(end, text.size());
  const Gpu gpu = read(parse_json(text.substr(start, end - start), path)).gpus.at(0);
  EXPECT_EQ(gpu.name, "RTX-4080-16GB");
  EXPECT_EQ(gpu.memory, kMiB * 16376);
}

TEST(BuiltIn, MachinesAreTheSameFromWhatIsReadForOneGpu) {
  const HardwareProfiles& all = built_in_profiles();
  EXPECT_EQ(built_in_networks(), all.networks);
  for (const Gpu& gpu : all.gpus) {
    const HardwareProfiles some = profiles_for(gpu.name, "");
    EXPECT_EQ(some.nodes, all.nodes) << gpu.name;
    const ClusterRequest request{.gpu = gpu.name, .gpus = 8};
    EXPECT_EQ(assemble_cluster(request, some), assemble_cluster(request, all)) << gpu.name;
  }
}

class UserFolder : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string folder_ =
      testing::TempDir() + "zplan_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(UserFolder, ReplacesByNameAndAddsTheRest) {
  Json mine = file_json(kH100);
  mine["memory_mib"] = 80000;
  write("a.json", mine.dump());
  Json other = file_json(kNode);
  other["name"] = "my-rig";
  other["aliases"] = Json::array({"rig"});
  write("b.json", other.dump());
  write("notes.txt", "not a profile");
  const HardwareProfiles all = with_user_profiles(folder_);
  EXPECT_EQ(all.gpus.size(), built_in_profiles().gpus.size());
  EXPECT_EQ(find_gpu(all, "h100").memory, kMiB * 80000);
  EXPECT_EQ(all.nodes.size(), built_in_profiles().nodes.size() + 1);
  EXPECT_EQ(find_node(all, "RIG").name, "my-rig");
}

TEST_F(UserFolder, BrokenFileIsNamed) {
  for (const std::string text :
       {"", "{", "{\"schema\": 1}", "[]", "{\"name\":\"a\",\"name\":\"b\"}", "\xff\xfe"}) {
    write("bad.json", text);
    try {
      (void)with_user_profiles(folder_);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const InputError& error) {
      EXPECT_NE(error.place().find("bad.json"), std::string::npos) << error.what();
    }
  }
}

TEST_F(UserFolder, MissingFolderAddsNothingAndAFileIsRefused) {
  EXPECT_EQ(with_user_profiles(folder_ + "/none"), built_in_profiles());
  EXPECT_EQ(with_user_profiles(""), built_in_profiles());
  write("file", "");
  EXPECT_THROW((void)with_user_profiles(folder_ + "/file"), InputError);
}

}  // namespace
}  // namespace zplan
