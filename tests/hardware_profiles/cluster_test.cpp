// Assembling a cluster: what is refused, what is assumed and said, what holds for every request.

#include "hardware_profiles/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zplan {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr Bytes gib(double count) { return Bytes(static_cast<std::int64_t>(count * 1073741824.0)); }

Cluster assemble(const ClusterRequest& request) { return assemble_cluster(request, built_in_profiles()); }

std::string refused_place(const ClusterRequest& request) {
  try {
    (void)assemble(request);
  } catch (const InputError& error) {
    EXPECT_FALSE(error.accepted().empty()) << error.what();
    return error.place();
  }
  return "accepted";
}

TEST(AssembleCluster, RefusesByOption) {
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 0}), "--gpus");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = -3}), "--gpus");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 1'000'001}), "--gpus");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = INT64_MIN}), "--gpus");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 8, .nodes = 0}), "--nodes");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 8, .nodes = INT64_MIN}), "--nodes");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 8, .nodes = 3}), "--nodes");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 8, .nodes = 16}), "--nodes");
  EXPECT_EQ(refused_place({.memory = Bytes(0), .gpus = 1}), "--mem");
  EXPECT_EQ(refused_place({.memory = Bytes(INT64_MIN), .gpus = 1}), "--mem");
  EXPECT_EQ(refused_place({.memory = gib(0.49), .gpus = 1}), "--mem");
  EXPECT_EQ(refused_place({.memory = gib(4096.1), .gpus = 1}), "--mem");
  EXPECT_EQ(refused_place({.gpu = "h100", .host_memory = Bytes(1)}), "--host-mem");
  EXPECT_EQ(refused_place({.gpu = "h101x", .gpus = 1}), "--gpu");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 8, .node = "nvswich"}), "--node");
  EXPECT_EQ(refused_place({.gpu = "4090", .gpus = 8, .node = "nvswitch"}), "--node");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 8, .node = "single"}), "--node");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 8, .nodes = 2, .network = "infiniband"}), "--network");
  EXPECT_EQ(refused_place({.gpu = "h100", .gpus = 8, .nodes = 1, .network = "infiniband"}), "--network");
  EXPECT_EQ(refused_place({.gpu = "/no/such/card.json"}), "/no/such/card.json");
}

/// 8 GT/s a lane of generation 3; what NCCL reaches of it.
TEST(Slots, RatesFollowGenerationAndLanes) {
  EXPECT_NEAR(rated({3, 16}).value, 15.75e9, 0.01e9);
  EXPECT_NEAR(rated({5, 16}).value, 63e9, 0.1e9);
  EXPECT_NEAR(rated({2, 16}).value, 8e9, 1);
  EXPECT_EQ(reached({3, 16}), BytesPerSecond(12e9));
  EXPECT_EQ(reached({4, 8}), BytesPerSecond(12e9));
  EXPECT_EQ(reached({5, 16}), BytesPerSecond(48e9));
}

/// Two GPUs behind one switch of generation 3 reach 4.0 GB/s: NVIDIA's driver offers no way but the host.
TEST(Slots, OneSwitchIsSharedByWhatGoesThroughTheHost) {
  const auto inside = [](const ClusterRequest& request) { return assemble(request).inside.all_reduce.value; };
  const ClusterRequest usual{.gpu = "2080ti", .gpus = 2, .node = "pcie-no-p2p"};
  ClusterRequest behind_one = usual, apart = usual, narrow = usual;
  behind_one.path = PciePath::pix, apart.path = PciePath::phb, narrow.path = PciePath::phb;
  narrow.pcie = PcieLink{3, 8};
  EXPECT_NEAR(inside(behind_one), 4.0e9, 0.5e9);
  EXPECT_EQ(inside(apart), 4.0e9);
  EXPECT_EQ(inside(narrow), inside(behind_one));
  EXPECT_EQ(assemble(behind_one).host.gpus_on_uplink, 2);
}

TEST(Slots, PeersOfOneSocketHaveTheWholeSlot) {
  const auto inside = [](PciePath path) {
    return assemble({.gpu = "a40", .gpus = 4, .node = "pcie", .path = path}).inside.all_reduce.value;
  };
  EXPECT_EQ(inside(PciePath::pix), 24e9);
  EXPECT_EQ(inside(PciePath::phb), 24e9);
  EXPECT_LT(inside(PciePath::sys), 24e9);
}

TEST(Hosts, ThreadsArePartsOfTheCores) {
  const Cluster whole = assemble({.gpu = "h100", .gpus = 8});
  EXPECT_EQ(whole.host.threads, whole.node.host_cores / 8);
  EXPECT_EQ(assemble({.gpu = "h100", .gpus = 8, .host_threads = 1}).host.threads, 1);
  const Cluster shape = assemble({.instance = "g5.4xlarge"});
  EXPECT_EQ(shape.host.threads, 8);
  EXPECT_LE(shape.host.bandwidth, BytesPerSecond(8 * 5e9));
}

TEST(AssembleCluster, AcceptsTheEndsOfEveryRange) {
  EXPECT_EQ(assemble({.gpu = "h100", .gpus = 1'000'000, .nodes = 125'000}).gpus_per_node, 8);
  EXPECT_EQ(assemble({.gpu = "h100", .gpus = 1'000'000, .nodes = 1'000'000}).gpus_per_node, 1);
  EXPECT_EQ(assemble({.memory = gib(0.5)}).memory, gib(0.5));
  EXPECT_EQ(assemble({.memory = gib(4096)}).memory, gib(4096));
}

/// zplan --model 8B --gpus 5 --mem 44: the generic GPU with 44 GiB, and every assumption said.
TEST(AssembleCluster, MemoryAloneTakesTheGenericCard) {
  const Cluster c = assemble({.memory = gib(44), .gpus = 5});
  EXPECT_EQ(c.gpu.name, "generic");
  EXPECT_EQ(c.memory, gib(44));
  EXPECT_EQ(c.node.name, "pcie");
  EXPECT_FALSE(c.network);
  EXPECT_LT(c.usable_memory, c.memory);
  EXPECT_THAT(c.assumptions,
              Contains(AllOf(HasSubstr("generic"), HasSubstr("125 TFLOP/s"), HasSubstr("--gpu"))));
  EXPECT_THAT(c.assumptions, Contains(HasSubstr("--host-mem")));
  EXPECT_THAT(c.assumptions, Contains(HasSubstr("--node")));
  EXPECT_THAT(c.assumptions, Not(Contains(HasSubstr("neither a GPU nor --mem"))));
  EXPECT_THAT(assemble({}).assumptions, Contains(HasSubstr("neither a GPU nor --mem")));
}

TEST(AssembleCluster, MemoryWinsOverTheCard) {
  const Cluster c = assemble({.gpu = "h100", .memory = gib(40)});
  EXPECT_EQ(c.gpu.name, "H100-SXM-80GB");
  EXPECT_EQ(c.memory, gib(40));
  EXPECT_EQ(c.memory - c.usable_memory, c.gpu.driver_reserved);
}

/// Nothing that was given is reported as assumed.
TEST(AssembleCluster, WhatIsGivenIsNoAssumption) {
  const Cluster c = assemble({.gpu = "a100",
                              .gpus = 16,
                              .nodes = 2,
                              .node = "nvswitch",
                              .network = "8x200g",
                              .host_memory = gib(900)});
  EXPECT_THAT(c.assumptions, Each(Not(AnyOf(HasSubstr("--node)"), HasSubstr("--network"),
                                            HasSubstr("--host-mem"), HasSubstr("--gpu")))));
  EXPECT_EQ(c.host_memory_per_node, gib(900));
}

TEST(AssembleCluster, DoubtfulFiguresAreSaid) {
  EXPECT_THAT(assemble({.gpu = "a10g", .gpus = 8}).assumptions, Contains(HasSubstr("board_power_w")));
  EXPECT_THAT(assemble({.gpu = "h200", .gpus = 8}).assumptions,
              Contains(HasSubstr("inside a node assumed: as H100")));
  EXPECT_THAT(assemble({.gpu = "a100", .gpus = 8}).assumptions, Not(Contains(HasSubstr("board_power_w"))));
  EXPECT_THAT(assemble({.gpu = "h100", .gpus = 16}).assumptions, Contains(HasSubstr("usually hold 8")));
  EXPECT_THAT(assemble({.gpu = "4090", .gpus = 4, .node = "pcie"}).assumptions,
              Contains(HasSubstr("peer-to-peer")));
  EXPECT_THAT(assemble({.gpu = "4090", .gpus = 4}).assumptions,
              Contains(HasSubstr("published machines reach 1.40 GB/s to 14.4 GB/s")));
}

TEST(AssembleCluster, UsualNodeFollowsTheCard) {
  const std::vector<std::pair<std::string, std::string>> usual{
      {"h100", "nvswitch"}, {"a100", "nvswitch"}, {"4090", "pcie-no-p2p-2x4"},   {"5090", "pcie-no-p2p-2x4"},
      {"l40s", "pcie"},     {"a40", "pcie"},      {"h100-nvl", "nvlink-bridge"}, {"gb200", "nvl72"}};
  for (const auto& [gpu, node] : usual) EXPECT_EQ(assemble({.gpu = gpu, .gpus = 8}).node.name, node) << gpu;
  EXPECT_EQ(assemble({.gpu = "4090"}).node.name, "single");
  EXPECT_EQ(assemble({.gpu = "4090", .gpus = 4}).node.name, "pcie-no-p2p");
}

TEST(AssembleCluster, TakesAProfileByPath) {
  const std::string path = std::string(ZPLAN_TEST_DATA) + "/../hardware_profiles/gpus/l4-24gb.json";
  EXPECT_EQ(assemble({.gpu = path, .gpus = 2}).gpu, assemble({.gpu = "L4-24GB", .gpus = 2}).gpu);
  const std::string node = std::string(ZPLAN_TEST_DATA) + "/../hardware_profiles/nodes/pcie.json";
  EXPECT_EQ(refused_place({.gpu = node}), "--gpu");
}

void expect_whole(const Cluster& c, const ClusterRequest& request) {
  EXPECT_EQ(c.nodes * c.gpus_per_node, request.gpus);
  EXPECT_EQ(c.network.has_value(), request.nodes > 1);
  EXPECT_EQ(c.between.has_value(), request.nodes > 1);
  EXPECT_LT(c.usable_memory, c.memory);
  EXPECT_GE(static_cast<double>(c.usable_memory.value), 0.95 * static_cast<double>(c.memory.value));
  EXPECT_GT(c.host_memory_per_node.value, 0);
  EXPECT_GT(c.inside.all_reduce.value, 0.0);
  EXPECT_GT(c.inside.latency.value, 0.0);
  // NVLS carries all_reduce up to a tenth above the rated link (483 of 450 GB/s on H100).
  EXPECT_LE(c.inside.all_reduce.value, 1.1 * std::max(c.gpu.nvlink, c.gpu.pcie).value);
  EXPECT_LE(c.inside.all_gather, std::max(c.gpu.nvlink, c.gpu.pcie));
  for (const std::string& sentence : c.assumptions) EXPECT_EQ(sentence.find('\n'), std::string::npos);
}

TEST(AssembleCluster, HoldsForEveryCardAndShape) {
  for (const Gpu& gpu : built_in_profiles().gpus)
    for (const std::int64_t nodes : {1, 2, 3, 16})
      for (const std::int64_t each : {1, 2, 3, 8, 16}) {
        const ClusterRequest request{.gpu = gpu.name, .gpus = nodes * each, .nodes = nodes};
        SCOPED_TRACE(gpu.name + " " + std::to_string(nodes) + "x" + std::to_string(each));
        const Cluster c = assemble(request);
        expect_whole(c, request);
        EXPECT_EQ(c, assemble(request));
      }
}

}  // namespace
}  // namespace zplan
