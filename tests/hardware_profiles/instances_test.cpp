// Cloud shapes, GPUs of other vendors, and machines whose GPU and host share a memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/link_speed.h"
#include "hardware_profiles/platform.h"

namespace zplan {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Cluster assembled(const ClusterRequest& request) { return assemble_cluster(request, built_in_profiles()); }

InputError refusal(const ClusterRequest& request) {
  try {
    (void)assembled(request);
  } catch (const InputError& error) {
    return error;
  }
  return {"nothing", "", ""};
}

TEST(Instances, SetWhatIsNotGiven) {
  const Cluster c = assembled({.instance = "p5.48xlarge"});
  EXPECT_EQ(c.gpu.name, "H100-SXM-80GB");
  EXPECT_EQ(c.gpus, 8);
  EXPECT_EQ(c.nodes, 1);
  EXPECT_EQ(c.node.name, "nvswitch");
  EXPECT_EQ(c.host_memory_per_node, kGiB * 2048);
  ASSERT_TRUE(c.instance);
  EXPECT_EQ(c.instance->vcpus, 192);
  EXPECT_EQ(c.instance->local_disk, Bytes(30'400'000'000'000));
  EXPECT_THAT(c.assumptions, Not(Contains(HasSubstr("--host-mem"))));
  EXPECT_THAT(c.assumptions, Not(Contains(HasSubstr("(--node)"))));
}

TEST(Instances, NodesMultiplyThem) {
  const Cluster c = assembled({.nodes = 4, .instance = "Standard_ND96isr_H100_v5"});
  EXPECT_EQ(c.gpus, 32);
  EXPECT_EQ(c.gpus_per_node, 8);
  ASSERT_TRUE(c.network);
  EXPECT_EQ(c.network->name, "8x400g");
  const Cluster by_gpus = assembled({.gpus = 32, .instance = "ND96isr_H100_v5"});
  EXPECT_EQ(by_gpus.nodes, 4);
  EXPECT_EQ(by_gpus, c);
}

TEST(Instances, APartOfOneIsOneNode) {
  const Cluster c = assembled({.gpus = 2, .instance = "g5.48xlarge"});
  EXPECT_EQ(c.nodes, 1);
  EXPECT_EQ(c.gpus, 2);
  EXPECT_EQ(c.host_memory_per_node, kGiB * 768);
}

TEST(Instances, WhatIsGivenWins) {
  const Cluster c = assembled({.gpu = "A100-SXM-80GB",
                               .memory = kGiB * 40,
                               .gpus = 8,
                               .nodes = 2,
                               .instance = "p4d.24xlarge",
                               .network = "8x400g",
                               .host_memory = kGiB * 100});
  EXPECT_EQ(c.gpu.name, "A100-SXM-80GB");
  EXPECT_EQ(c.memory, kGiB * 40);
  EXPECT_EQ(c.gpus_per_node, 4);
  EXPECT_EQ(c.network->name, "8x400g");
  EXPECT_EQ(c.host_memory_per_node, kGiB * 100);
}

TEST(Instances, RefuseWhatTheyDoNotHold) {
  EXPECT_EQ(refusal({.gpus = 12, .instance = "p5.48xlarge"}).place(), "--gpus");
  EXPECT_EQ(refusal({.gpus = 32, .nodes = 2, .instance = "p5.48xlarge"}).place(), "--gpus, --nodes");
  EXPECT_EQ(refusal({.nodes = 0, .instance = "p5.48xlarge"}).place(), "--nodes");
  EXPECT_EQ(refusal({.nodes = 1'000'000, .instance = "p5.48xlarge"}).place(), "--gpus");
  const InputError unknown = refusal({.instance = "p5.48xlrage"});
  EXPECT_EQ(unknown.place(), "--instance");
  EXPECT_THAT(unknown.accepted(), HasSubstr("did you mean p5.48xlarge?"));
}

TEST(Instances, SayWhatIsNotCertainOfThem) {
  EXPECT_THAT(assembled({.instance = "BM.GPU.H100.8"}).assumptions,
              Contains("BM.GPU.H100.8: local_disk_gb, network are assumed: not checked against the page"));
  EXPECT_THAT(assembled({.instance = "BM.GPU.H100.8", .network = "8x400g"}).assumptions,
              Contains("BM.GPU.H100.8: local_disk_gb is assumed: not checked against the page"));
}

TEST(Instances, EachCanBeAssembledOnOneNodeAndOnTwo) {
  EXPECT_GE(built_in_instances().size(), 150U);
  for (const Instance& each : built_in_instances())
    for (const std::int64_t nodes : {1, 2}) {
      const Cluster c = assembled({.nodes = nodes, .instance = each.name});
      EXPECT_EQ(c.gpus, nodes * each.gpus) << each.name;
      EXPECT_EQ(c.gpus_per_node, each.gpus) << each.name;
      EXPECT_EQ(c.host_memory_per_node, each.host_memory) << each.name;
      if (each.gpus > 1) {
        EXPECT_GT(c.inside.all_reduce.value, 0) << each.name;
      }
    }
}

TEST(Instances, AQuestionAboutOneReadsItsGpuAlone) {
  const HardwareProfiles few = profiles_for("", "", "p4de.24xlarge");
  EXPECT_LE(few.gpus.size(), 3U);
  EXPECT_EQ(assemble_cluster({.instance = "p4de.24xlarge"}, few), assembled({.instance = "p4de.24xlarge"}));
  EXPECT_TRUE(profiles_for("a100", "").instances.empty());
}

TEST(Platforms, FollowFromTheArchitecture) {
  EXPECT_EQ(platform_of("9.0").collectives, "NCCL");
  EXPECT_EQ(platform_of("gfx942").collectives, "RCCL");
  EXPECT_EQ(platform_of("ascend910b").platform, Platform::cann);
  EXPECT_EQ(platform_of("gaudi3").platform, Platform::gaudi);
  EXPECT_TRUE(runs_flash_attention("8.0"));
  EXPECT_FALSE(runs_flash_attention("7.5"));
  EXPECT_TRUE(runs_flash_attention("gfx90a"));
  EXPECT_TRUE(platform_of("gfx1100").bitsandbytes.four_bit);
  EXPECT_FALSE(platform_of("ascend910c").bitsandbytes.four_bit);
  EXPECT_FALSE(platform_of("gaudi2").bitsandbytes.optimizers);
}

TEST(Platforms, WhatWasNotComparedIsSaid) {
  for (const char* gpu : {"mi300x", "mi250x", "7900xtx", "910b", "gaudi2"})
    EXPECT_THAT(assembled({.gpu = gpu}).assumptions,
                Contains(HasSubstr("no published training run was compared")))
        << gpu;
  EXPECT_THAT(assembled({.gpu = "h100"}).assumptions, Not(Contains(HasSubstr("no published training run"))));
}

/// In a mesh two of eight GPUs share one link of seven, eight all of them.
TEST(Meshes, AGroupUsesTheLinksAmongItsOwn) {
  const HardwareProfiles& all = built_in_profiles();
  Gpu gpu = find_gpu(all, "mi300x");
  gpu.links.clear();
  const Node& mesh = find_node(all, "mesh");
  EXPECT_DOUBLE_EQ(share_of_mesh(mesh, 2), 1.0 / 7);
  EXPECT_DOUBLE_EQ(share_of_mesh(mesh, 8), 1);
  EXPECT_NEAR(
      speed_inside(gpu, mesh, 8).speed.all_reduce.value / speed_inside(gpu, mesh, 2).speed.all_reduce.value,
      7, 1e-9);
  EXPECT_EQ(refusal({.gpu = "rx-7900-xtx-24gb", .gpus = 4, .node = "mesh"}).place(), "--node");
}

TEST(UnifiedMemory, TheHostHasWhatTheGpusHave) {
  const Cluster spark = assembled({.gpu = "dgx-spark"});
  EXPECT_TRUE(spark.gpu.unified_memory);
  EXPECT_EQ(spark.host_memory_per_node, spark.memory);
  EXPECT_EQ(assembled({.gpu = "mi300a", .gpus = 4}).host_memory_per_node, kMiB * 131056 * 4);
  EXPECT_FALSE(find_gpu(built_in_profiles(), "gh200").unified_memory);
}

}  // namespace
}  // namespace zplan
