// GPUs by the names that drivers print.
#include "hardware_profiles/gpu_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/profiles.h"
#include "models/base/error.h"

namespace zplan {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(GpuNames, AreThoseThatNvidiaSmiPrints) {
  const std::map<std::string, std::string> printed{
      {"NVIDIA GeForce RTX 3070 Laptop GPU", "RTX-3070-Laptop-8GB"},
      {"NVIDIA GeForce RTX 3060 Laptop GPU", "RTX-3060-Laptop-6GB"},
      {"NVIDIA GeForce RTX 4090 Laptop GPU", "RTX-4090-Laptop-16GB"},
      {"NVIDIA GeForce RTX 2080 with Max-Q Design", "RTX-2080-Laptop-8GB"},
      {"NVIDIA RTX A2000 8GB Laptop GPU", "A2000-Laptop-8GB"},
      {"NVIDIA RTX 3500 Ada Generation Laptop GPU", "RTX-3500-Ada-Laptop-12GB"},
      {"NVIDIA RTX 5000 Ada Generation", "RTX-5000-Ada-32GB"},
      {"NVIDIA RTX 4000 SFF Ada Generation", "RTX-4000-SFF-Ada-20GB"},
      {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Server-96GB"},
      {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000-96GB"},
      {"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX-PRO-6000-Max-Q-96GB"},
      {"Quadro RTX 8000", "Quadro-RTX-8000-48GB"},
      {"NVIDIA GeForce RTX 4090 D", "RTX-4090-D-24GB"},
      {"NVIDIA GeForce GTX 1080 Ti", "GTX-1080-Ti-11GB"},
      {"NVIDIA GH200 480GB", "GH200-96GB"},
      {"NVIDIA GeForce RTX 2060", "RTX-2060-6GB"},
      {"NVIDIA A100-SXM4-80GB", "A100-SXM-80GB"},
      {"A100 80", "A100-SXM-80GB"},
      {"A100 40", "A100-SXM-40GB"},
      {"a100 80 gb", "A100-SXM-80GB"},
      {"NVIDIA H100 80GB HBM3", "H100-SXM-80GB"},
      {"Tesla V100-SXM2-16GB", "V100-SXM-16GB"}};
  for (const auto& [name, gpu] : printed) EXPECT_EQ(find_gpu(built_in_profiles(), name).name, gpu) << name;
}

TEST(GpuNames, ASizeInTheNameIsTheGpus) {
  EXPECT_EQ(gpu_called(built_in_profiles(), "NVIDIA A100-SXM-64GB"), nullptr);
  EXPECT_EQ(gpu_called(built_in_profiles(), "NVIDIA GeForce RTX 3080 Laptop GPU 12GB"), nullptr);
}

/// Two sizes under one name: the smaller is planned and said.
TEST(GpuNames, OneNameOfTwoSizesIsSaid) {
  const Cluster cluster =
      assemble_cluster({.gpu = "NVIDIA GeForce RTX 3080 Laptop GPU", .gpus = 1}, built_in_profiles());
  EXPECT_EQ(cluster.gpu.name, "RTX-3080-Laptop-8GB");
  EXPECT_THAT(cluster.assumptions,
              Contains(HasSubstr("is sold as RTX-3080-Laptop-8GB and RTX-3080-Laptop-16GB")));
}

TEST(GpuNames, APartOfAGpuHasItsShare) {
  const Gpu& whole = find_gpu(built_in_profiles(), "A100-SXM-80GB");
  const Gpu& part = find_gpu(built_in_profiles(), "NVIDIA A100-SXM4-80GB MIG 3g.40gb");
  EXPECT_EQ(part.name, "A100-SXM-80GB MIG 3g.40gb");
  // nvidia-smi prints 40192 MiB.
  EXPECT_NEAR(static_cast<double>(part.memory.value) / (1 << 20), 40192, 100);
  EXPECT_NEAR(part.bf16->value / whole.bf16->value, 3.0 / 7, 1e-9);
  EXPECT_NEAR(part.memory_bandwidth.value / whole.memory_bandwidth.value, 0.5, 1e-9);
  EXPECT_FALSE(part.peer_to_peer);
  EXPECT_EQ(part.nvlink, BytesPerSecond{});
  EXPECT_EQ(&part, &find_gpu(built_in_profiles(), "NVIDIA A100-SXM4-80GB MIG 3g.40gb"));
  const Gpu& small = find_gpu(built_in_profiles(), "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
  EXPECT_NEAR(static_cast<double>(small.memory.value) / (1 << 30), 9.8, 0.3);
  EXPECT_EQ(gpu_called(built_in_profiles(), "NVIDIA Nothing MIG 1g.10gb"), nullptr);
}

TEST(GpuNames, AnUnknownOneIsMetByTheNearestFive) {
  try {
    static_cast<void>(find_gpu(built_in_profiles(), "NVIDIA GeForce RTX 3065 Laptop GPU"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.place(), "--gpu");
    EXPECT_THAT(error.accepted(), HasSubstr("RTX-3060-Laptop-6GB"));
    EXPECT_LT(error.accepted().size(), 250U);
  }
  EXPECT_EQ(nearest_gpus(built_in_profiles().gpus, "H150", 5).size(), 5U);
  EXPECT_EQ(nearest_gpus(built_in_profiles().gpus, "", 5).size(), 5U);
}

}  // namespace
}  // namespace zplan
